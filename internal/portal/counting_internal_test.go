package portal

import (
	"testing"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

func TestFewTenantsCountAtOnce(t *testing.T) {
	t.Parallel()
	var c counting
	tenant := func(n int64) id.ID { return id.ID{Shard: 1, N: n} }
	nested := func(n int64) error { return c.do(tenant(n), func() error { return nil }) }
	err := c.do(tenant(1), func() error {
		if err := nested(1); !fault.Is(err, fault.TooMany) {
			t.Errorf("the same tenant: %v", err)
		}
		if err := nested(2); err != nil {
			t.Errorf("another: %v", err)
		}
		return c.do(tenant(2), func() error { return nested(3) })
	})
	if !fault.Is(err, fault.TooMany) {
		t.Errorf("one too many: %v", err)
	}
	if err := nested(1); err != nil || len(c.who) != 0 {
		t.Errorf("when all are done: %v, %v", err, c.who)
	}
}
