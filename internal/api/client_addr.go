package api

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddr is where a request comes from: the peer of its connection or, if that is one of our proxies, the address that
// the proxies say it came from, in X-Forwarded-For. Each proxy adds its own peer at the right end, and everything further
// left may be the client's invention: so it is read from the right, as long as what stands there is one of ours.
func clientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // no TCP connection
	}
	from := peer.Addr().Unmap().WithZone("")
	if !within(trusted, from) {
		return from
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, ok := parseHop(hop)
		if !ok {
			return from // who wrote this we do not know; the last of ours is what is certain
		}
		if from = next; !within(trusted, from) {
			return from
		}
	}
	return from
}

// parseHop reads an address as proxies write it: bare, with a port, in brackets.
func parseHop(hop string) (netip.Addr, bool) {
	hop = strings.TrimSpace(hop)
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	if err != nil {
		with, err := netip.ParseAddrPort(hop)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = with.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

func within(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}
