package config

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	flags := flagSet(t)
	count := 0
	flags.VisitAll(func(*pflag.Flag) { count++ })
	if count != len(keys) {
		t.Errorf("%d flags for %d keys", count, len(keys))
	}
	help := flags.FlagUsages()
	for _, k := range everyKey {
		flag := flags.Lookup(k.name)
		if flag == nil {
			t.Errorf("no flag --%s", k.name)
			continue
		}
		standard, _ := lookup(k.name)
		if flag.Usage == "" || flag.DefValue != standard.def {
			t.Errorf("--%s: usage %q, default %q", k.name, flag.Usage, flag.DefValue)
		}
		if warns := strings.Contains(flag.Usage, "other users see flags"); warns != standard.secret {
			t.Errorf("--%s: says that others see it: %v, secret: %v", k.name, warns, standard.secret)
		}
	}
	for _, want := range []string{
		"--delivery.timeout duration ", "(default 15s)", "--delivery.allow_http ", "--delivery.retry_schedule durations ",
		"(default 1m,5m,30m,2h,6h)", "--delivery.allow_networks CIDRs ", "--events.max_payload size ", "--database.max_conns number ",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("no %q in the help:\n%s", want, help)
		}
	}
}

// viper converts the text of a flag of some types, and swallows what it cannot convert. Of ours only the plain truth
// value, which pflag has checked by then, has such a type.
func TestNoFlagTypeThatViperConverts(t *testing.T) {
	t.Parallel()
	flagSet(t).VisitAll(func(flag *pflag.Flag) {
		name := flag.Value.Type()
		if strings.HasPrefix(name, "int") || strings.HasSuffix(name, "Slice") || strings.HasPrefix(name, "string") {
			t.Errorf("--%s is of type %s", flag.Name, name)
		}
	})
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{
		"delivery.timeuot":  "delivery.timeout",
		"delivery.time_out": "delivery.timeout",
		"deliver":           "delivery",
		"LOG.LEVEL":         "log.level",
		"max_payload":       "events.max_payload",
		"alerts.after":      "alerts.after_failures",
		"completely":        "",
		"x":                 "",
		"":                  "",
	} {
		if got, ok := suggest(wrong, names()); (ok && got != want) || ok != (want != "") {
			t.Errorf("suggest(%q) = %q, %v; want %q", wrong, got, ok, want)
		}
	}
	if d := distance(strings.Repeat("x", 100_000), "http.addr"); d != 100_000 {
		t.Errorf("a giant is %d off", d)
	}
}
