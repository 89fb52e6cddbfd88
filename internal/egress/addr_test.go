package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/fault"
)

func TestCheckAddrClasses(t *testing.T) {
	t.Parallel()
	for class, list := range map[string]string{
		"":              "8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 ::ffff:8.8.8.8 2606:4700:4700::1111 2a00:1450::1",
		"loopback":      "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 ::ffff:7f00:1",
		"unspecified":   "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0",
		"private":       "10.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fd00::1 fdff::1 fec0::1 feff::1 ::ffff:10.0.0.1",
		"link-local":    "169.254.0.1 fe80::1 fe81::1 febf::1 fe80::1%eth0 ::ffff:169.254.1.1",
		"metadata":      "169.254.169.254 169.254.170.2 ::ffff:a9fe:a9fe 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254 fd00:ec2::23 fd20:ce::254",
		"shared":        "100.64.0.1 100.127.255.255",
		"multicast":     "224.0.0.1 239.255.255.255 ff02::1 ff0e::1",
		"documentation": "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
		"benchmarking":  "198.18.0.1 198.19.255.255 2001:2::1",
		"translated":    "::7f00:1 ::8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::8.8.8.8 64:ff9b:1::7f00:1 64:ff9b:1:ffff::1",
		"tunnelled":     "2002:7f00:1::1 2002:808:808::1 2001:0:1:2:3:4:5:6 192.88.99.1 2620::5efe:7f00:1 2620::200:5efe:808:808",
		"reserved":      "240.0.0.1 255.255.255.255 192.0.0.1 192.52.193.1 192.175.48.1 100::1 4000::1 5f00::1 2001:10::1 2001:20::1 2620:4f:8000::1",
	} {
		for text := range strings.SplitSeq(list, " ") {
			addr := netip.MustParseAddr(text)
			err := (&Policy{}).CheckAddr(addr, 443)
			if class == "" {
				if err != nil {
					t.Errorf("%s: %v", text, err)
				}
				continue
			}
			if !fault.Is(err, fault.Blocked) || err.Error() != "the address is not allowed: "+class {
				t.Errorf("%s: %v, want %s", text, err, class)
			}
		}
	}
	if err := (&Policy{}).CheckAddr(netip.Addr{}, 443); !fault.Is(err, fault.Blocked) {
		t.Errorf("no address at all: %v", err)
	}
}

func TestCheckAddrAllowAndDeny(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allow, deny, addr string
		ok                bool
	}{
		{"127.0.0.0/8", "", "127.0.0.1", true},
		{"127.0.0.0/8", "", "::ffff:127.0.0.1", true},
		{"127.0.0.0/8", "", "::1", false},
		{"127.0.0.2", "", "127.0.0.1", false},
		{"fe80::/10", "", "fe80::1%eth0", true},
		{"", "8.8.8.0/24", "8.8.8.8", false},
		{"", "2606:4700::/32", "2606:4700::1", false},
		{"", "fe80::/10", "fe80::1%eth0", false},
		// The longer prefix wins, and of two equal ones the denial.
		{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", false},
		{"10.0.0.0/8", "10.1.0.0/16", "10.2.2.3", true},
		{"10.1.2.0/24", "10.1.0.0/16", "10.1.2.3", true},
		{"10.0.0.0/8", "10.0.0.0/8", "10.1.2.3", false},
		{"10.1.2.0/24 10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", true},
		{"10.0.0.0/8", "10.1.2.0/24 0.0.0.0/0", "10.1.2.3", false},
		// What carries a v4 address must be allowed inside and out.
		{"64:ff9b::/96", "", "64:ff9b::808:808", true},
		{"64:ff9b::/96", "", "64:ff9b::7f00:1", false},
		{"64:ff9b::/96 127.0.0.0/8", "", "64:ff9b::7f00:1", true},
		{"64:ff9b::/96", "8.8.8.8", "64:ff9b::808:808", false},
		{"::/0", "", "2002:7f00:1::1", false},
		{"::/0", "", "2002:808:808::1", true},
		{"::/0", "", "::10.0.0.1", false},
		{"::/0", "", "::1", true},
	} {
		p := &Policy{AllowNetworks: mustNetworks(t, c.allow), DenyNetworks: mustNetworks(t, c.deny)}
		err := p.CheckAddr(netip.MustParseAddr(c.addr), 443)
		if (err == nil) != c.ok {
			t.Errorf("allow %q, deny %q, %s: %v", c.allow, c.deny, c.addr, err)
		}
	}
}

func TestCheckAddrPorts(t *testing.T) {
	t.Parallel()
	public := netip.MustParseAddr("8.8.8.8")
	for port, ok := range map[uint16]bool{0: false, 22: false, 25: false, 80: true, 443: true, 1023: false, 1024: true, 65535: true} {
		err := (&Policy{}).CheckAddr(public, port)
		if (err == nil) != ok || (err != nil && !fault.Is(err, fault.Blocked)) {
			t.Errorf("port %d: %v", port, err)
		}
	}
}

func TestCheckSocketTakesTCPOnly(t *testing.T) {
	t.Parallel()
	p := &Policy{}
	for _, c := range [][2]string{{"udp4", "8.8.8.8:443"}, {"unix", "/run/x"}, {"tcp4", "example.com:443"}, {"tcp6", "[::1]:443"}} {
		if err := p.checkSocket(c[0], c[1]); !fault.Is(err, fault.Blocked) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if err := p.checkSocket("tcp4", "8.8.8.8:443"); err != nil {
		t.Error(err)
	}
}

func mustNetworks(t *testing.T, list string) []netip.Prefix {
	t.Helper()
	networks, err := ParseNetworks(strings.Fields(list))
	if err != nil {
		t.Fatal(err)
	}
	return networks
}
