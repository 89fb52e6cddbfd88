package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// PortRange is the ports from First to Last, both in it.
type PortRange struct {
	First, Last uint16
}

// String writes the range as the key takes it: 443 or 1024-65535.
func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

var portsKind = single("port", func(text string) (PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, errFrom := strconv.ParseUint(first, 10, 16)
	to, errTo := strconv.ParseUint(last, 10, 16)
	if errFrom != nil || errTo != nil {
		return PortRange{}, fmt.Errorf("%s is not a port, want one such as 443 or a range such as 1024-65535", quote(text))
	}
	return PortRange{uint16(from), uint16(to)}, nil
}, func(r PortRange) any { return r.String() })

var prefixKind = single("CIDR", func(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			return netip.Prefix{}, fmt.Errorf("%s has no length, want %s for this one address", quote(text), netip.PrefixFrom(addr, addr.BitLen()))
		}
		return netip.Prefix{}, fmt.Errorf("%s is not a CIDR, want one such as 10.1.0.0/16 or fd00:1::/64", quote(text))
	}
	if prefix.Addr().Is4In6() {
		// It would never match: addresses are unmapped before they are compared.
		return netip.Prefix{}, fmt.Errorf("%s is IPv4 written as IPv6, want one such as 10.1.0.0/16", quote(text))
	}
	if masked := prefix.Masked(); masked != prefix {
		return netip.Prefix{}, fmt.Errorf("%s has bits set after its length, want %s", quote(text), masked)
	}
	return prefix, nil
}, func(prefix netip.Prefix) any { return prefix.String() })

// nextURL is where, in a text of several URLs, another one begins. A comma alone does not divide: mail addresses in a
// smtp:// URL are separated by commas too.
var nextURL = regexp.MustCompile(`,[A-Za-z][A-Za-z0-9+.-]*://`)

// splitURLs splits at blanks, and at commas that a scheme follows.
func splitURLs(text string) []string {
	var urls []string
	for word := range strings.FieldsSeq(text) {
		start := 0
		for _, at := range nextURL.FindAllStringIndex(word, -1) {
			urls = append(urls, word[start:at[0]])
			start = at[0] + 1
		}
		urls = append(urls, word[start:])
	}
	return urls
}
