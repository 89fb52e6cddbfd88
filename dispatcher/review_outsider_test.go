package dispatcher_test

import (
	"testing"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/egress"
)

func TestHideQuery(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://a.example/hook":                          "https://a.example/hook",
		"https://a.example/hook?":                         "https://a.example/hook?",
		"https://a.example:8443/%2Fh?token=s3cret&b=c%20": "https://a.example:8443/%2Fh?token=[redacted]&b=[redacted]",
		"https://a.example/?a=&b=s=3&&a=x":                "https://a.example/?a=&b=[redacted]&&a=[redacted]",
		"https://a.example/?s3cret":                       "https://a.example/?[redacted]",
		"https://a.example/?a=x?y;z=s3cret#part":          "https://a.example/?a=[redacted]#part",
		"https://a.example/#f?a=b":                        "https://a.example/#f?a=b",
	} {
		if got := dispatcher.HideQuery(given); got != want {
			t.Errorf("%s is shown as %s, not %s", given, got, want)
		}
	}
}

func TestAnOutsiderSeesTheClassOfAnAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"93.184.215.14:443": "public", "[2606:2800:21f:cb07::1]:443": "public", "10.0.0.7:443": "private", "127.0.0.1:80": "loopback",
		"[::1]:80": "loopback", "[::ffff:10.0.0.7]:443": "private", "[fd00::1]:443": "private", "169.254.169.254:80": "metadata",
		"100.64.0.9:443": "shared", "[64:ff9b::a00:7]:443": "translated", "[fe80::1%eth0]:443": "link-local",
		"10.0.0.7": "unknown", "93.184.215.14": "unknown", "nonsense": "unknown", "": "",
	} {
		got := dispatcher.Attempt{Address: address, ErrorDetail: "dial tcp " + address}.Outsider(egress.Class)
		if got.Address != want || got.ErrorDetail != "" {
			t.Errorf("%s is %s (%q), not %s", address, got.Address, got.ErrorDetail, want)
		}
	}
}
