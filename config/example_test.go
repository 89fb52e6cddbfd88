package config_test

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/config"
	"github.com/spf13/pflag"
)

func ExampleLoad() {
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse([]string{"--delivery.timeout=1m"}); err != nil {
		fmt.Println(err)
		return
	}
	c, err := config.Load(flags, "", []string{"POSTRIDER_HTTP_ADDR=:80"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.HTTP.Addr, c.Source("http.addr"))
	fmt.Println(c.Validate(config.NeedDatabase))
	// Output:
	// :80 env
	// delivery.lease: 1m is too short, want at least twice the longest timeout, delivery.timeout of 1m; delivery.timeout is from --delivery.timeout
	// database.url: is not set, want postgres://user:password@host:5432/database
}

func ExampleLoad_faults() {
	_, err := config.Load(nil, "", []string{"POSTRIDER_HTTP_ADR=:80", "POSTRIDER_DELIVERY_TIMEOUT=15"})
	fmt.Println(err)
	// Output:
	// POSTRIDER_HTTP_ADR: is an unknown variable, did you mean POSTRIDER_HTTP_ADDR? (from the environment)
	// delivery.timeout: "15" has no unit, want a duration such as 15s, 1h30m or 30d (from POSTRIDER_DELIVERY_TIMEOUT)
}

func ExampleConfig_Print() {
	c, err := config.Load(nil, "", []string{"POSTRIDER_DATABASE_URL=postgres://me:secret@db/postrider"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var out strings.Builder
	if err := c.Print(&out, false); err != nil {
		fmt.Println(err)
		return
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "database.") {
			fmt.Println(strings.Join(strings.Fields(line), " "))
		}
	}
	// Output:
	// database.url postgres://me:[redacted]@db/postrider env POSTRIDER_DATABASE_URL
	// database.pooler none default
	// database.direct_url - default
	// database.max_conns 16 default
	// database.migrate_on_start false default
}
