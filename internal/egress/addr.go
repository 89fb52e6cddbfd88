package egress

import (
	"net/netip"

	"code.dny.dev/ssrf"

	"github.com/postrider/postrider/internal/fault"
)

// guardian gives the verdict on an address from the special-purpose registries of IANA: for v4 every entry, for v6
// everything outside 2000::/3 and the special entries inside. Ports and networks are Policy's own business.
var guardian = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())

// classes names the kind of an address for people, first match wins, and adds what guardian lets pass. The names are shown
// to tenants; the address itself is not, so that a name which leads inside tells nobody what it found there.
var classes = []struct {
	prefix netip.Prefix
	class  string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), "metadata"}, // AWS, GCP, Azure, DigitalOcean, OpenStack
	{netip.MustParsePrefix("169.254.170.0/24"), "metadata"},   // credentials of AWS containers
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"},   // Azure's WireServer: looks public, is the host
	{netip.MustParsePrefix("100.100.100.200/32"), "metadata"}, // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), "metadata"},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::/32"), "metadata"},      // AWS over v6 (fd00:ec2::254)
	{netip.MustParsePrefix("fd20:ce::254/128"), "metadata"},   // GCP over v6

	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"}, // RFC 791; 0.0.0.0 reaches this host
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},     // RFC 1918
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},  // RFC 1918
	{netip.MustParsePrefix("192.168.0.0/16"), "private"}, // RFC 1918
	{netip.MustParsePrefix("fc00::/7"), "private"},       // unique local, RFC 4193
	{netip.MustParsePrefix("fec0::/10"), "private"},      // site-local, withdrawn by RFC 3879 and still routed by some
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared"}, // carrier-grade NAT, RFC 6598
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},    // RFC 5737
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"}, // RFC 5737
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},  // RFC 5737
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},   // RFC 3849
	{netip.MustParsePrefix("3fff::/20"), "documentation"},       // RFC 9637
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},    // RFC 2544
	{netip.MustParsePrefix("2001:2::/48"), "benchmarking"},      // RFC 5180

	// Addresses of one family that carry one of the other. They are refused whatever they carry: what lies at the far end
	// of a translator or a tunnel is not what this check could see.
	{netip.MustParsePrefix("::/96"), "translated"},           // v4-compatible, RFC 4291 section 2.5.5.1
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "translated"}, // SIIT, RFC 2765
	{netip.MustParsePrefix("64:ff9b::/96"), "translated"},    // NAT64, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated"},  // NAT64 of local use, RFC 8215
	{netip.MustParsePrefix("2001::/32"), "tunnelled"},        // Teredo, RFC 4380
	{netip.MustParsePrefix("2002::/16"), "tunnelled"},        // 6to4, RFC 3056
	{netip.MustParsePrefix("192.88.99.0/24"), "tunnelled"},   // 6to4 relays, RFC 7526
}

// CheckAddr is the check at the dial, on the address the socket is about to connect to. Its faults are all fault.Blocked;
// the detail names the class of the address ("loopback", "metadata", "denied network", …) or the port, never the address.
//
// AllowNetworks exempt, DenyNetworks add; where both match, the longer prefix wins, and of two equal ones the denial. A v6
// address that is allowed and carries a v4 one (NAT64, 6to4) must be allowed on the inside as well: whoever opens
// 64:ff9b::/96 for a translator has not opened 64:ff9b::7f00:1.
func (p *Policy) CheckAddr(addr netip.Addr, port uint16) error {
	if !p.AllowPorts.Contains(port) {
		return fault.New(fault.Blocked, "port %d is not allowed", port)
	}
	if class := p.refusal(addr); class != "" {
		return fault.New(fault.Blocked, "the address is not allowed: %s", class)
	}
	return nil
}

// Class names the kind of an address, "public" if it is nothing in particular.
func Class(addr netip.Addr) string {
	if class := new(Policy).refusal(addr); class != "" {
		return class
	}
	return "public"
}

// refusal gives the class for which addr is refused, or "".
func (p *Policy) refusal(addr netip.Addr) string {
	if !addr.IsValid() {
		return "not an address"
	}
	// A zone keeps netip.Prefix from matching at all, and a v4-mapped address reaches the v4 host.
	addr = addr.WithZone("").Unmap()
	allowed, denied := longestMatch(p.AllowNetworks, addr), longestMatch(p.DenyNetworks, addr)
	switch {
	case denied >= 0 && denied >= allowed:
		return "denied network"
	case allowed >= 0:
		if inner, ok := carriedV4(addr); ok {
			return p.refusal(inner)
		}
		return ""
	}
	return builtinRefusal(addr)
}

// builtinRefusal is the verdict without an operator's wishes. addr is unmapped and has no zone.
func builtinRefusal(addr netip.Addr) string {
	for _, c := range classes {
		if c.prefix.Contains(addr) {
			return c.class
		}
	}
	if isISATAP(addr) {
		return "tunnelled"
	}
	if guardian.SafeAddr(addr) != nil {
		return "reserved"
	}
	return ""
}

// carriedV4 gives the v4 address inside a NAT64 (well-known prefix), 6to4 or v4-compatible address.
func carriedV4(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case netip.MustParsePrefix("2002::/16").Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("::/96").Contains(addr) && addr != netip.IPv6Unspecified() && addr != netip.IPv6Loopback():
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}

// isISATAP reports whether the interface half of addr is ::0:5efe:a.b.c.d or ::200:5efe:a.b.c.d (RFC 5214 section 6.1), which
// tunnels to that v4 address under any prefix.
func isISATAP(addr netip.Addr) bool {
	if !addr.Is6() {
		return false
	}
	b := addr.As16()
	return (b[8] == 0x00 || b[8] == 0x02) && b[9] == 0x00 && b[10] == 0x5e && b[11] == 0xfe
}
