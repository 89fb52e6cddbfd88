package egress

import (
	"net/netip"
	"strings"

	"github.com/postrider/postrider/internal/fault"
)

// ParseNetworks reads CIDR prefixes or single addresses, v4 or v6. A prefix with bits set beyond its length is refused and
// not masked: 10.1.2.3/8 is a slip of the pen as often as it is meant, and one of the two readings opens a whole network.
// A v4-mapped prefix (::ffff:10.0.0.0/104) is turned into the v4 prefix it stands for, since addresses are compared unmapped.
func ParseNetworks(list []string) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, 0, len(list))
	for _, entry := range list {
		prefix, err := parseNetwork(strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		networks = append(networks, prefix)
	}
	return networks, nil
}

func parseNetwork(entry string) (netip.Prefix, error) {
	if !strings.Contains(entry, "/") {
		addr, err := netip.ParseAddr(entry)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fault.New(fault.Invalid, "%q is neither a network (CIDR) nor an address", entry)
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(entry)
	if err != nil {
		return netip.Prefix{}, fault.New(fault.Invalid, "%q is no network in CIDR form", entry)
	}
	if prefix.Masked() != prefix {
		return netip.Prefix{}, fault.New(fault.Invalid,
			"the network %q has bits set beyond its length; write %s if that is meant", entry, prefix.Masked())
	}
	if prefix.Addr().Is4In6() {
		const mapped = 96 // bits of ::ffff:0:0/96, RFC 4291 section 2.5.5.2
		if prefix.Bits() < mapped {
			return netip.Prefix{}, fault.New(fault.Invalid, "the network %q is wider than the v4-mapped addresses", entry)
		}
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mapped), nil
	}
	return prefix, nil
}

// longestMatch gives the length of the most specific prefix that holds addr, or -1.
func longestMatch(networks []netip.Prefix, addr netip.Addr) int {
	best := -1
	for _, n := range networks {
		if n.Contains(addr) && n.Bits() > best {
			best = n.Bits()
		}
	}
	return best
}
