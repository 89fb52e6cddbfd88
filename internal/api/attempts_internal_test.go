package api

import "testing"

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
		if got := hideQuery(given); got != want {
			t.Errorf("%s is shown as %s, not %s", given, got, want)
		}
	}
}
