package api

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestClientAddr(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, test := range []struct {
		name, peer string
		header     []string
		want       string
	}{
		{"a direct client", "192.0.2.1:1234", nil, "192.0.2.1"},
		{"a direct client that makes one up", "192.0.2.1:1234", []string{"198.51.100.1"}, "192.0.2.1"},
		{"IPv4 as IPv6", "[::ffff:192.0.2.1]:1234", nil, "192.0.2.1"},
		{"a zone", "[fe80::1%eth0]:1234", nil, "fe80::1"},
		{"through a proxy", "10.0.0.1:80", []string{"192.0.2.1"}, "192.0.2.1"},
		{"through a proxy, with something made up before", "10.0.0.1:80", []string{"198.51.100.1, 192.0.2.1"}, "192.0.2.1"},
		{"through a proxy, with one of ours made up before", "10.0.0.1:80", []string{"10.1.1.1, 192.0.2.1"}, "192.0.2.1"},
		{"in another header line", "10.0.0.1:80", []string{"198.51.100.1", " 192.0.2.1 "}, "192.0.2.1"},
		{"through two proxies", "10.0.0.1:80", []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"through an IPv6 proxy", "[fd00::1]:80", []string{"2001:db8::1"}, "2001:db8::1"},
		{"from a proxy itself", "10.0.0.1:80", nil, "10.0.0.1"},
		{"from within", "10.0.0.1:80", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"with a port", "10.0.0.1:80", []string{"192.0.2.1:4711"}, "192.0.2.1"},
		{"in brackets", "10.0.0.1:80", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"in brackets with a port", "10.0.0.1:80", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"garbage at the right", "10.0.0.1:80", []string{"192.0.2.1, unknown"}, "10.0.0.1"},
		{"garbage before a proxy", "10.0.0.1:80", []string{"192.0.2.1, _hidden, 10.0.0.2"}, "10.0.0.2"},
		{"an empty header", "10.0.0.1:80", []string{""}, "10.0.0.1"},
		{"mapped in the header", "10.0.0.1:80", []string{"::ffff:10.0.0.2, ::ffff:192.0.2.1"}, "192.0.2.1"},
		{"no address at all", "@", []string{"192.0.2.1"}, "invalid IP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{RemoteAddr: test.peer, Header: http.Header{"X-Forwarded-For": test.header}}
			if got := clientAddr(r, proxies).String(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
