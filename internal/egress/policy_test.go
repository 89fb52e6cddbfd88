package egress

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/egresstest"
	"github.com/postrider/postrider/internal/fault"
)

const longest = "https://example.com/"

func TestCheckURL(t *testing.T) {
	t.Parallel()
	production := &Policy{}
	plain := &Policy{AllowHTTP: true}
	local := &Policy{AllowHTTP: true, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	six := &Policy{AllowHTTP: true, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::/10")}}
	denying := &Policy{DenyNetworks: []netip.Prefix{netip.MustParsePrefix("8.8.8.0/24")}}
	anyPort, err := ParsePorts("1-65535")
	if err != nil {
		t.Fatal(err)
	}
	const ok = fault.Code("")
	for _, c := range []struct {
		policy *Policy
		url    string
		want   fault.Code
		detail string // a part of the error
	}{
		{production, "https://example.com", ok, ""},
		{production, "HTTPS://EXAMPLE.COM:443/hook?token=a%20b", ok, ""},
		{production, "https://example.com./", ok, ""},
		{production, "https://example.com:8443/", ok, ""},
		{production, "https://my_host.example.com/", ok, ""},
		{production, "https://bücher.example/", ok, ""},
		{production, "https://8.8.8.8/", ok, ""},
		{production, "https://[2606:4700:4700::1111]:8443/", ok, ""},
		{production, "https://notlocalhost/", ok, ""},
		{production, "https://123.example.com/", ok, ""},
		{production, longest + strings.Repeat("x", 2048-len(longest)), ok, ""},
		{plain, "http://example.com:80/", ok, ""},
		{local, "http://localhost:8080/", ok, ""},
		{local, "http://LOCALHOST.:8080/", ok, ""},
		{local, "http://hooks.localhost:8080/", ok, ""},
		{local, "http://127.0.0.1:8080/", ok, ""},
		{local, "http://１２７．０．０．１:8080/", ok, ""},
		{six, "http://localhost:8080/", ok, ""},
		{six, "http://[::1]:8080/", ok, ""},
		{&Policy{AllowPorts: anyPort}, "https://example.com:25/", ok, ""},

		// The form.
		{production, longest + strings.Repeat("x", 2049-len(longest)), fault.Invalid, "longer than 2048 bytes"},
		{production, "", fault.Invalid, "https://"},
		{production, "example.com/hook", fault.Invalid, "https://"},
		{production, "//example.com/hook", fault.Invalid, "https://"},
		{production, "http://example.com/", fault.Invalid, "plain http is not allowed"},
		{production, "ftp://example.com/", fault.Invalid, "https://"},
		{production, "file:///etc/passwd", fault.Invalid, "https://"},
		{plain, "unix:///run/x.sock", fault.Invalid, "https://"},
		{production, "https:///path", fault.Invalid, "no host"},
		{production, "https:example.com", fault.Invalid, "no host"},
		{production, "https://:443/", fault.Invalid, "no host"},
		{production, "https://./", fault.Invalid, "no valid name"},
		{production, "https://a..b/", fault.Invalid, "no valid name"},
		{production, "https://.example.com/", fault.Invalid, "no valid name"},
		{production, "https://example.com../", fault.Invalid, "no valid name"},
		{production, "https://" + strings.Repeat("a", 64) + ".com/", fault.Invalid, "no valid name"},
		{production, "https://" + strings.Repeat("a.", 130) + "com/", fault.Invalid, "no valid name"},
		{production, "https://exa$mple.com/", fault.Invalid, "no valid name"},
		{production, "https://user@example.com/", fault.Invalid, "user name or password"},
		{production, "https://user:CANARYPW@example.com/", fault.Invalid, "user name or password"},
		{production, "https://@example.com/", fault.Invalid, "user name or password"},
		{production, "https://example.com/#part", fault.Invalid, "fragment"},
		{production, "https://example.com/#", fault.Invalid, "fragment"},
		{production, " https://example.com/", fault.Invalid, "blank"},
		{production, "https://example.com/ ", fault.Invalid, "blank"},
		{production, "https://example.com/\n", fault.Invalid, "blank"},
		{production, "https://example.com/a b", fault.Invalid, "blank"},
		{production, "https://example.com/?a b", fault.Invalid, "blank"},
		{production, "https://example.com/\u00a0", fault.Invalid, "blank"},
		{production, "https://example.com/\x00", fault.Invalid, "control"},
		{production, "https://example.com/\x7f", fault.Invalid, "control"},
		{production, "https://example.com/\u0085", fault.Invalid, "control"},
		{production, "https://example.com/\xff", fault.Invalid, "UTF-8"},
		{production, "https://example.com/%zz", fault.Invalid, "cannot be parsed"},
		{production, "https://example.com\\@10.0.0.1/", fault.Invalid, "cannot be parsed"},
		{production, "https://[::1/", fault.Invalid, "cannot be parsed"},
		{production, "https://example.com:/", fault.Invalid, "colon and no port"},
		{production, "https://example.com:0/", fault.Invalid, "port"},
		{production, "https://example.com:00443/", fault.Invalid, "port"},
		{production, "https://example.com:65536/", fault.Invalid, "port"},
		{production, "https://example.com:http/", fault.Invalid, "cannot be parsed"},
		{production, "https://example.com:-1/", fault.Invalid, "cannot be parsed"},
		{production, "https://1.2.3.4.5/", fault.Invalid, "no valid name"},
		{production, "https://256.256.256.256/", fault.Invalid, "no valid name"},
		{production, "https://08.8.8.8/", fault.Invalid, "no valid name"},
		{production, "https://134744072/", fault.Invalid, "unusual spelling"},
		{production, "https://0x8.8.8.8/", fault.Invalid, "unusual spelling"},
		{production, "https://8.8.8.8./", fault.Invalid, "unusual spelling"},
		{production, "https://[::ffff:8.8.8.8]/", fault.Invalid, "unusual spelling"},
		{production, "https://[2606:4700:4700::1111%25eth0]/", fault.Invalid, "zone"},
		{local, "http://2130706433:8080/", fault.Invalid, "unusual spelling"},
		{six, "http://[fe80::1%25eth0]/", fault.Invalid, "zone"},

		// Where it leads.
		{production, "https://example.com:22/", fault.Blocked, "port 22"},
		{production, "https://example.com:1023/", fault.Blocked, "port 1023"},
		{local, "http://127.0.0.1:25/", fault.Blocked, "port 25"},
		{production, "https://localhost/", fault.Blocked, "loopback"},
		{production, "https://LocalHost./", fault.Blocked, "loopback"},
		{production, "https://a.b.localhost/", fault.Blocked, "loopback"},
		{production, "https://ｌｏｃａｌｈｏｓｔ/", fault.Blocked, "loopback"},
		{production, "https://metadata.google.internal/", fault.Blocked, "metadata"},
		{production, "https://Metadata.Google.Internal./", fault.Blocked, "metadata"},
		{production, "https://metadata/", fault.Blocked, "metadata"},
		{production, "https://instance-data/", fault.Blocked, "metadata"},
		{production, "https://168.63.129.16/", fault.Blocked, "metadata"},
		{production, "https://10.0.0.1/?token=CANARY", fault.Blocked, "private"},
		{local, "http://10.0.0.1/", fault.Blocked, "private"},
		{local, "http://[::1]:8080/", fault.Blocked, "loopback"},
		{production, "https://127.0.0.1./", fault.Blocked, "loopback"},
		{production, "https://127.0.0\u00ad.1/", fault.Blocked, "loopback"},
		{production, "https://[fe80::1%25eth0]/", fault.Blocked, "link-local"},
		{production, "https://[2001:0:7f00:1::]/", fault.Blocked, "tunnelled"},
		{production, "https://[64:ff9b:1::7f00:1]/", fault.Blocked, "translated"},
		{denying, "https://8.8.8.8/", fault.Blocked, "denied network"},
	} {
		err := c.policy.CheckURL(c.url)
		if got := codeOrNone(err); got != c.want {
			t.Errorf("%q: %q (%v), want %q", c.url, got, err, c.want)
			continue
		}
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), c.detail) {
			t.Errorf("%q: %q does not say %q", c.url, err, c.detail)
		}
		if strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%q: the error repeats a secret: %v", c.url, err)
		}
	}
}

func codeOrNone(err error) fault.Code {
	if err == nil {
		return ""
	}
	return fault.CodeOf(err)
}

func TestCheckURLRefusesEverySpellingOfTheInside(t *testing.T) {
	t.Parallel()
	p := &Policy{AllowHTTP: true}
	for _, raw := range egresstest.Inside("8080") {
		if err := p.CheckURL(raw); !fault.Is(err, fault.Blocked) {
			t.Errorf("%q: %v, want blocked", raw, err)
		}
	}
	for _, raw := range egresstest.Tricks("8080") {
		if err := p.CheckURL(raw); err == nil {
			t.Errorf("%q was accepted", raw)
		}
	}
}

// FuzzCheckURL holds that what is accepted is sendable, that its host is what was judged, and that it is no way to write an
// address inside: not to Go's dialler, and not to a C resolver, which reads numbers as inet_aton does.
func FuzzCheckURL(f *testing.F) {
	for _, raw := range append(egresstest.Inside("8080"), egresstest.Tricks("8080")...) {
		f.Add(raw)
	}
	for _, raw := range []string{
		"https://example.com:8443/hook?token=a", "https://8.8.8.8/", "https://[2606:4700:4700::1111]/", "https://bücher.example/",
		"https://xn--bcher-kva.example./", "https://a_b.example:65535/%2F", "http://0x.example/", "http://1.example/", "http://１.example/",
	} {
		f.Add(raw)
	}
	f.Add("https://example.com:8443/hook?token=a")
	f.Add("https://8.8.8.8/")
	for _, raw := range []string{
		"https://example.com:0/", "https://example.com:25/", "https://example.com:65536/", "https://example.com:080/", "https://example.com:/",
		"HTTPS://EXAMPLE.COM", "https:example.com", "https:///x", "ftp://example.com/", "https://example.com/\\@127.0.0.1/", "https://a%2eb/",
		"https://user:CANARYPW@127.0.0.1:8080/x?token=CANARY", "https://example.com/ ", "https://münchen.example/", "https://[fe80::1%25eth0]/",
	} {
		f.Add(raw)
	}
	f.Add("https://[2606:4700:4700::1111]/")
	p := &Policy{AllowHTTP: true}
	ours := regexp.MustCompile(`^(80|443|102[4-9]|10[3-9]\d|1[1-9]\d\d|[2-9]\d{3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$`)
	f.Fuzz(func(t *testing.T, raw string) {
		if p.CheckURL(raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(raw, "# \r\n\t\x00") || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q was accepted", raw)
		}
		if port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]); !ours.MatchString(port) {
			t.Fatalf("%q was accepted, with the port %q", raw, port)
		}
		if again, err := url.Parse(u.String()); err != nil || again.Host != u.Host || p.CheckURL(u.String()) != nil {
			t.Fatalf("%q is another URL once it is written anew: %v", raw, err)
		}
		req, err := http.NewRequest(http.MethodPost, raw, nil)
		if err != nil || req.URL.Host != u.Host {
			t.Fatalf("%q was accepted and no request can be made of it: %v", raw, err)
		}
		host, err := asciiHost(u.Hostname())
		if err != nil {
			t.Fatalf("%q has a host that is not dialled as it was checked: %v", raw, err)
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			if err := p.CheckAddr(addr, 443); err != nil {
				t.Fatalf("%q was accepted: %v", raw, err)
			}
			return
		}
		name := strings.TrimSuffix(host, ".")
		if _, ok := parseLooseV4(name); ok {
			t.Fatalf("%q was accepted, and is an address to others", raw)
		}
		if name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(metadataNames, name) {
			t.Fatalf("%q was accepted", raw)
		}
	})
}

func ExamplePolicy_CheckURL() {
	var p Policy // the production setting
	for _, raw := range []string{
		"https://example.com/hooks?token=secret",
		"http://example.com/hooks",
		"https://user:secret@example.com/",
		"https://127.1/?token=secret",
	} {
		fmt.Println(p.CheckURL(raw))
	}
	// Output:
	// <nil>
	// plain http is not allowed; the URL must be https
	// the URL holds a user name or password; send credentials in a header
	// the host is not allowed: loopback
}
