package egress

import (
	"net"
	"testing"

	"github.com/postrider/postrider/internal/egresstest"
)

func newResolver(t testing.TB, answer egresstest.Zone) *net.Resolver {
	t.Helper()
	return egresstest.Resolver(t, answer)
}

func fixed(names map[string]string) egresstest.Zone { return egresstest.Fixed(names) }
