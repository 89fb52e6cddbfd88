package egress

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/fault"
)

// maxURLBytes bounds a registered URL. 2,048 is what proxies and log pipelines of receivers commonly take.
const maxURLBytes = 2048

// Policy says where deliveries may go. The zero value is the production setting: https only, the default ports, no network
// inside. It is read-only once in use and safe for concurrent use.
type Policy struct {
	AllowHTTP     bool           // plain http as well
	AllowNetworks []netip.Prefix // exempt from what is refused by itself
	DenyNetworks  []netip.Prefix // refused in addition
	AllowPorts    PortSet        // the zero value is the default set
}

// metadataNames lead to a cloud's metadata service from inside that cloud. The dial would refuse their addresses anyway;
// naming them here makes the mistake visible when the endpoint is registered.
var metadataNames = []string{
	"metadata", "metadata.goog", "metadata.google.internal", "metadata.azure.internal", "metadata.tencentyun.com",
	"instance-data", "instance-data.ec2.internal", "rancher-metadata",
}

// CheckURL is the rule for a URL at registration. It looks at the text alone and asks no DNS: a name is judged again at
// every dial, by CheckAddr.
//
// fault.Invalid is a URL that breaks a rule of form: over 2,048 bytes, blanks or control characters, not parsable, another
// scheme than https (or http, if allowed), no host, userinfo, a fragment (an empty one too), a port that is blank, 0 or oddly
// written, a host that is no name, an allowed address in an unusual spelling. fault.Blocked is a well-formed URL to where
// deliveries may not go: a refused address in any spelling, localhost, a metadata name, a port outside the allowed set.
// The detail says what is wrong and repeats nothing of the URL but a numeric port, so no token in it can leak.
func (p *Policy) CheckURL(raw string) error {
	if len(raw) > maxURLBytes {
		return fault.New(fault.Invalid, "the URL is longer than %d bytes", maxURLBytes)
	}
	if !utf8.ValidString(raw) {
		return fault.New(fault.Invalid, "the URL is not valid UTF-8")
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fault.New(fault.Invalid, "the URL holds a blank or a control character")
	}
	// Looked for in the text, since url.URL cannot tell an empty fragment from none.
	if strings.Contains(raw, "#") {
		return fault.New(fault.Invalid, "the URL has a fragment")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return fault.New(fault.Invalid, "the URL cannot be parsed") // err repeats the URL
	}
	return p.checkParsed(u)
}

// checkParsed is the part of CheckURL that holds for every request as well: a row may be older than the policy.
func (p *Policy) checkParsed(u *url.URL) error {
	if err := p.checkForm(u); err != nil {
		return err
	}
	port, err := portOf(u)
	if err != nil {
		return err
	}
	t := readHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
	if class := p.targetRefusal(t); class != "" {
		return fault.New(fault.Blocked, "the host is not allowed: %s", class)
	}
	if t.err != nil {
		return fault.New(fault.Invalid, "%s", t.err.Error())
	}
	if !p.AllowPorts.Contains(port) {
		return fault.New(fault.Blocked, "port %d is not allowed", port)
	}
	return nil
}

func (p *Policy) checkForm(u *url.URL) error {
	switch {
	case u.Scheme == "http" && !p.AllowHTTP:
		return fault.New(fault.Invalid, "plain http is not allowed; the URL must be https")
	case u.Scheme != "https" && u.Scheme != "http":
		return fault.New(fault.Invalid, "the URL must start with https://")
	case u.User != nil:
		return fault.New(fault.Invalid, "the URL holds a user name or password; send credentials in a header")
	case u.Opaque != "" || u.Host == "":
		return fault.New(fault.Invalid, "%s", errHostMissing.Error())
	case u.Fragment != "":
		return fault.New(fault.Invalid, "the URL has a fragment")
	}
	return nil
}

// portOf gives the port the URL leads to. url.Parse takes "host:" and port 0, which the dialer would then try.
func portOf(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, fault.New(fault.Invalid, "the URL has a colon and no port")
		}
		if u.Scheme == "http" {
			return 80, nil
		}
		return 443, nil
	}
	port, ok := parsePort(text)
	if !ok {
		return 0, fault.New(fault.Invalid, "the port is not a number from 1 to 65535 in its usual spelling")
	}
	return port, nil
}

// targetRefusal gives the class for which a host is refused by its text alone, or "". A name that always means certain
// addresses is refused unless one of these is allowed; which one is then dialled, the dial judges.
func (p *Policy) targetRefusal(t target) string {
	switch {
	case t.addr.IsValid():
		return p.refusal(t.addr)
	case t.name == "localhost" || strings.HasSuffix(t.name, ".localhost"): // RFC 6761 section 6.3
		class := p.refusal(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		if class == "" || p.refusal(netip.IPv6Loopback()) == "" {
			return ""
		}
		return class
	case slices.Contains(metadataNames, t.name):
		return p.refusal(netip.AddrFrom4([4]byte{169, 254, 169, 254}))
	}
	return ""
}
