package migrations

import (
	"slices"
	"strings"
	"testing"
)

func TestThePlanPutsFirstWhatOthersPointTo(t *testing.T) {
	t.Parallel()
	tables := []Table{
		{Name: "endpoint_pace", PointsTo: []string{"endpoints"}},
		{Name: "deliveries"},
		{Name: "nodes"},
		{Name: "endpoints", PointsTo: []string{"tenants"}},
		{Name: "tenants"},
		{Name: "events", Placed: true},
	}
	got, err := plan(tables)
	want := []string{
		"SELECT create_reference_table('tenants')",
		"SELECT create_distributed_table('endpoints', 'shard', colocate_with => 'none')",
		"SELECT create_distributed_table('deliveries', 'shard', colocate_with => 'endpoints')",
		"SELECT create_distributed_table('endpoint_pace', 'shard', colocate_with => 'endpoints')",
		"SELECT citus_add_local_table_to_metadata('nodes')",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
	if _, err := plan([]Table{{Name: "new_one"}, {Name: "tenants"}}); err == nil || !strings.Contains(err.Error(), "new_one") {
		t.Errorf("a table that is in no class: %v", err)
	}
}
