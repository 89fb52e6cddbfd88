package egress

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// The ways a host can be wrong in itself, whatever the policy says. The texts are for the caller and echo nothing.
var (
	errHostMissing  = errors.New("the URL names no host")
	errHostSpelling = errors.New("the host is no valid name")
	errHostLiteral  = errors.New("the host is an address in an unusual spelling; write it the usual way")
	errHostZone     = errors.New("an address with a zone is not taken")
)

// target is a URL's host as the dialer will see it.
type target struct {
	name string     // lower-case ASCII without a trailing dot; "" for an address
	addr netip.Addr // set when the host is an address in any spelling
	err  error      // why the host is not taken in this form, even if the address is allowed
}

// readHost decodes a URL's host (url.URL.Hostname, without brackets) the way net/http and the C resolvers do, so that a
// full-width, octal or decimal spelling of an address is seen as that address. bracketed says the URL had it in [ ].
func readHost(host string, bracketed bool) target {
	if host == "" {
		return target{err: errHostMissing}
	}
	if bracketed || strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Is6() {
			return target{err: errHostSpelling}
		}
		t := target{addr: addr.WithZone("")}
		switch {
		case addr.Zone() != "":
			t.err = errHostZone
		case addr.Is4In6():
			t.err = errHostLiteral
		}
		return t
	}
	ascii, err := asciiHost(host)
	if err != nil {
		return target{err: errHostSpelling}
	}
	name := strings.TrimSuffix(ascii, ".")
	if !validName(name) {
		return target{err: errHostSpelling}
	}
	if !endsInNumber(name) {
		return target{name: name}
	}
	if addr, err := netip.ParseAddr(ascii); err == nil {
		return target{addr: addr} // the usual spelling, and the usual case
	}
	addr, ok := parseLooseV4(name)
	if !ok {
		return target{err: errHostSpelling}
	}
	t := target{addr: addr}
	if addr.String() != ascii {
		t.err = errHostLiteral
	}
	return t
}

// asciiHost does what net/http does to a host before it dials: nothing to an ASCII one, the mapping of UTS 46 (with NFKC:
// full-width digits, ideographic dots, soft hyphens) to any other.
func asciiHost(host string) (string, error) {
	for i := range len(host) {
		if host[i] >= 0x80 {
			return idna.Lookup.ToASCII(host)
		}
	}
	return strings.ToLower(host), nil
}

// validName takes DNS names (RFC 1035 section 2.3.4 lengths) of letters, digits, hyphens and, since receivers have them,
// underscores. name is lower case and without its trailing dot.
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// endsInNumber reports whether the last label is a decimal, octal or hex number. No top-level domain is one, so such a host
// is an address or nothing (WHATWG URL, "ends in a number checker").
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.HasPrefix(last, "0x") {
		return strings.Trim(last[2:], "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// parseLooseV4 reads a v4 address as inet_aton does: one to four parts, each decimal, octal (0…) or hex (0x…), the last of
// which fills all the bytes that remain.
func parseLooseV4(name string) (netip.Addr, bool) {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		n, ok := parseLooseNumber(part)
		limit, shift := uint64(0xff), 8*uint(3-i)
		if i == len(parts)-1 {
			limit, shift = 1<<(8*uint(4-i))-1, 0
		}
		if !ok || n > limit {
			return netip.Addr{}, false
		}
		sum |= n << shift
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}

func parseLooseNumber(part string) (uint64, bool) {
	base := 10
	switch {
	case part == "0x": // WHATWG reads it as zero
		return 0, true
	case strings.HasPrefix(part, "0x"):
		part, base = part[2:], 16
	case len(part) > 1 && part[0] == '0':
		part, base = part[1:], 8
	}
	n, err := strconv.ParseUint(part, base, 32)
	return n, err == nil
}
