package verifier

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/postrider/postrider/signer"
)

// digest is one signature, read in whichever way it can be.
type digest struct {
	raw     []byte
	written encoding
	version string // what stood before it: "v1,", "sha256=", …
}

type encoding string

const (
	inHex     encoding = "hex"
	inBase64  encoding = "base64"
	inURLSafe encoding = "base64 in the URL-safe alphabet"
	unpadded  encoding = "base64 without its padding"
)

// most bounds how many signatures of a header are looked at.
const most = 16

// digests reads all signatures of a header, whatever the scheme.
func digests(value string) (out []digest) {
	parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" ,;\t\"'", r) })
	version := ""
	for _, part := range parts {
		for _, name := range []string{"sha256=", "sha1=", "sha512=", "v1=", "v0=", "v1a=", "t="} {
			if rest, ok := strings.CutPrefix(part, name); ok {
				part, version = rest, name
				break
			}
		}
		if part == "v1" || part == "v1a" || part == "v0" || part == "v2" {
			version = part + ","
			continue
		}
		if d, ok := decode(part); ok && version != "t=" && len(out) < most {
			d.version = version
			out = append(out, d)
		}
		version = ""
	}
	return out
}

// decode reads a signature. What can be read as hex is: base64 of 32 bytes has other lengths.
func decode(text string) (digest, bool) {
	if strings.ContainsAny(text, "\r\n") {
		return digest{}, false // Go's base64 would pass them over
	}
	if raw, err := hex.DecodeString(text); err == nil && len(raw) >= 16 {
		return digest{raw: raw, written: inHex}, true
	}
	for _, one := range []struct {
		*base64.Encoding
		name encoding
	}{
		{base64.StdEncoding.Strict(), inBase64},
		{base64.RawStdEncoding.Strict(), unpadded},
		{base64.URLEncoding.Strict(), inURLSafe},
		{base64.RawURLEncoding.Strict(), inURLSafe},
	} {
		if raw, err := one.DecodeString(text); err == nil && len(raw) >= 16 {
			return digest{raw: raw, written: one.name}, true
		}
	}
	return digest{}, false
}

// form is how a scheme writes a signature.
type form struct {
	version string
	written encoding
	size    int
	example string
}

func formOf(scheme signer.Scheme) form {
	switch scheme {
	case signer.Standard:
		return form{"v1,", inBase64, sha256.Size, "v1,<base64>"}
	case signer.StandardEd25519:
		return form{"v1a,", inBase64, ed25519.SignatureSize, "v1a,<base64>"}
	case signer.Stripe:
		return form{"v1=", inHex, sha256.Size, "t=<unix seconds>,v1=<hex>"}
	case signer.GitHub:
		return form{"sha256=", inHex, sha256.Size, "sha256=<hex>"}
	case signer.TimestampedHex:
	}
	return form{"", inHex, sha256.Size, "<64 hex digits>"}
}

// signatureFindings says what is wrong with how the signature is written.
func (c *claim) signatureFindings() []Finding {
	want := formOf(c.scheme)
	if c.signature == "" {
		return nil // that it is missing was said
	}
	name := c.signatureHeader(c.scheme)
	if len(c.digests) == 0 {
		return []Finding{{
			"signature_unreadable", name + " holds nothing that is a signature",
			"It has to be " + want.example + ", whole and as it was sent.",
		}}
	}
	for _, d := range c.digests {
		if len(d.raw) == want.size {
			return c.writing(d)
		}
	}
	d := c.digests[0]
	says := fmt.Sprintf("the signature in %s has %d bytes and not %d", name, len(d.raw), want.size)
	if hint := map[int]string{20: "HMAC-SHA1 has as many", 32: "HMAC-SHA256 has as many", 64: "HMAC-SHA512 and Ed25519 have as many"}[len(d.raw)]; hint != "" {
		says += "; " + hint
	}
	return []Finding{{
		"signature_length", says, "It was cut off or made in another way: the scheme " + c.scheme.String() + " sends " + want.example + ".",
	}}
}

// writing says how a signature that may be right is written wrongly.
func (c *claim) writing(d digest) (out []Finding) {
	want, name := formOf(c.scheme), c.signatureHeader(c.scheme)
	if d.written != want.written {
		out = append(out, Finding{
			"signature_encoding", fmt.Sprintf("the signature in %s is written in %s and not in %s", name, d.written, want.written),
			"The scheme " + c.scheme.String() + " sends " + want.example + ".",
		})
	}
	if d.version != want.version {
		before := "nothing"
		if d.version != "" {
			before = fmt.Sprintf("%q", d.version)
		}
		says := fmt.Sprintf("before the signature in %s stands %s and not %q", name, before, want.version)
		if want.version == "" {
			says = fmt.Sprintf("before the signature in %s stands %s, where nothing belongs", name, before)
		}
		out = append(out, Finding{"signature_version", says, "The scheme " + c.scheme.String() + " sends " + want.example + "."})
	}
	return out
}
