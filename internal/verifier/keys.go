package verifier

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/postrider/postrider/signer"
)

// twist is how something was tried otherwise than it should be. The zero twist is as it should be.
type twist struct{ code, says, do string }

func (t twist) weight() int {
	if t.code == "" {
		return 0
	}
	return 1
}

// key is a secret read in one way. One of raw and public is set.
type key struct {
	secret string // its label
	raw    []byte
	public ed25519.PublicKey
	twist
}

// made reports whether the key made this signature.
func (k key) made(d digest, head string, body []byte) bool {
	if k.public != nil {
		return len(d.raw) == ed25519.SignatureSize && ed25519.Verify(k.public, append([]byte(head), body...), d.raw)
	}
	return hmac.Equal(k.sum(head, body), d.raw)
}

func (k key) sum(head string, body []byte) []byte {
	mac := hmac.New(sha256.New, k.raw)
	mac.Write([]byte(head))
	mac.Write(body)
	return mac.Sum(nil)
}

// keys are the ways to read a secret, the right one first, if it can be read rightly at all.
func (c *claim) keys(s Secret) (out []key) {
	add := func(raw []byte, t twist) {
		if len(raw) > 0 {
			out = append(out, key{secret: s.Label, raw: raw, twist: t})
		}
	}
	for _, t := range cleanings(s) {
		switch c.scheme {
		case signer.Standard:
			readStandard(s.Label, t.text, t.twist, add)
		case signer.StandardEd25519:
			if public := readPublic(t.text); public != nil {
				out = append(out, key{secret: s.Label, public: public, twist: either(t.twist, barePublic(s.Label, t.text))})
			}
		case signer.Stripe, signer.GitHub, signer.TimestampedHex:
			readText(c.scheme, s.Label, t.text, t.twist, add)
		}
	}
	return out
}

type cleaned struct {
	text string
	twist
}

// cleanings are a secret as it is, and without what copying leaves around it.
func cleanings(s Secret) []cleaned {
	out := []cleaned{{text: s.Text}}
	bare := strings.TrimSpace(strings.TrimPrefix(s.Text, bom))
	if bare != s.Text {
		out = append(out, cleaned{bare, twist{
			"secret_blank", s.Label + " has a blank or a line break before or after it; without it, the signature is right",
			"Trim the secret where the receiver reads it: `echo` and editors put a line break at the end.",
		}})
	}
	if unquoted := strings.Trim(bare, `"'`); unquoted != bare {
		out = append(out, cleaned{unquoted, twist{
			"secret_quoted", s.Label + " has quotation marks around it; without them, the signature is right",
			"Take them away where the receiver reads it: env files of some tools keep them.",
		}})
	}
	return out
}

// readStandard reads a secret whose key is the bytes after whsec_, decoded.
func readStandard(label, text string, t twist, add func([]byte, twist)) {
	encoded, prefixed := strings.CutPrefix(text, "whsec_")
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	sound := err == nil && prefixed && base64.StdEncoding.EncodeToString(raw) == encoded
	if sound {
		add(raw, t)
	} else {
		if raw, how := anyBase64(encoded); how != "" {
			add(raw, either(t, twist{
				"secret_base64", label + " is not written as whsec_ and standard base64; read as " + how + ", it made the signature",
				"Keep it as it was shown, whsec_ and the = signs at the end included.",
			}))
		}
	}
	add([]byte(text), twist{
		"secret_raw", "it was signed with the text of " + label + ", not with the bytes that the text is base64 of",
		"In the scheme standard the key is what follows whsec_, decoded by base64; only stripe, github and timestamped-hex take the text.",
	})
	if prefixed {
		add([]byte(encoded), twist{
			"secret_raw", "it was signed with the text after whsec_ of " + label + ", not with the bytes that it is base64 of",
			"In the scheme standard the key is what follows whsec_, decoded by base64.",
		})
	}
}

// readText reads a secret whose key is the text itself.
func readText(scheme signer.Scheme, label, text string, t twist, add func([]byte, twist)) {
	if _, err := signer.ParseSecret(scheme, text); err == nil || t.code != "" {
		add([]byte(text), t)
	} else {
		add([]byte(text), twist{
			"secret_refused", label + " made the signature, and is none that Postrider would take: " + err.Error(),
			"Give the endpoint another secret (`postrider endpoints rotate`).",
		})
	}
	add([]byte(text+"\n"), twist{
		"secret_newline", "it was signed with " + label + " and a line break behind it",
		"Trim the secret on the side that signs: `echo` and editors put a line break at the end.",
	})
	whole := "In the scheme " + scheme.String() + " the key is the whole text of the secret, byte for byte, nothing cut off and nothing decoded."
	encoded, prefixed := strings.CutPrefix(text, "whsec_")
	if prefixed {
		add([]byte(encoded), twist{"secret_cut", "it was signed with the text after whsec_ of " + label, whole})
	} else {
		add([]byte("whsec_"+text), twist{
			"secret_prefix", label + " lacks the whsec_ that it was signed with",
			"The whole text that was shown is the secret, whsec_ included.",
		})
	}
	if raw, how := anyBase64(encoded); how != "" {
		add(raw, twist{"secret_decoded", "it was signed with the bytes that " + label + " is " + how + " of", whole})
	}
	if raw, err := hex.DecodeString(encoded); err == nil {
		add(raw, twist{"secret_decoded", "it was signed with the bytes that " + label + " is hex of", whole})
	}
}

// readPublic reads a public key, or takes it out of a private one.
func readPublic(text string) ed25519.PublicKey {
	for _, prefix := range []string{"whpk_", "whsk_", ""} {
		encoded, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		raw, _ := anyBase64(encoded)
		switch {
		case len(raw) == ed25519.PrivateKeySize:
			return ed25519.PublicKey(raw[ed25519.SeedSize:])
		case len(raw) == ed25519.SeedSize && prefix == "whsk_":
			public, _ := ed25519.NewKeyFromSeed(raw).Public().(ed25519.PublicKey)
			return public
		case len(raw) == ed25519.PublicKeySize:
			return raw
		}
	}
	return nil
}

func barePublic(label, text string) twist {
	if strings.HasPrefix(text, "whpk_") || strings.HasPrefix(text, "whsk_") {
		return twist{}
	}
	return twist{
		"secret_prefix", label + " is the public key without its whpk_; with it, the signature is right",
		"Keep it as it was shown, whpk_ included, or decode it by base64 yourself.",
	}
}

// anyBase64 decodes base64 of any alphabet, with its padding or without, and says which it was.
func anyBase64(text string) (raw []byte, how string) {
	d, ok := decode(text)
	if !ok || d.written == inHex {
		if strings.ContainsAny(text, "\r\n") {
			return nil, ""
		}
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) > 0 {
			return raw, string(inBase64)
		}
		return nil, ""
	}
	return d.raw, string(d.written)
}

func either(a, b twist) twist {
	if a.code != "" {
		return a
	}
	return b
}

// secretFindings says what is wrong with the secrets themselves. What it quotes of signer's words never holds any of one.
func (c *claim) secretFindings() (out []Finding) {
	if len(c.Secrets) == 0 {
		return []Finding{{
			"no_secret", "there is no secret to verify with",
			"Give the endpoint's by --secret-file, --secret or POSTRIDER_VERIFY_SECRET (`postrider endpoints secret` shows it).",
		}}
	}
	for _, s := range c.Secrets {
		if c.scheme == signer.StandardEd25519 && strings.HasPrefix(s.Text, "whpk_") && readPublic(s.Text) != nil {
			continue
		}
		_, err := signer.ParseSecret(c.scheme, s.Text)
		switch {
		case err == nil:
		case strings.HasPrefix(s.Text, "prk_"):
			out = append(out, Finding{
				"secret_kind", s.Label + " is an API key and no endpoint's secret",
				"Take the endpoint's secret: `postrider endpoints secret` shows it. Revoke the key if it was where it does not belong.",
			})
		default:
			out = append(out, Finding{
				"secret_refused", s.Label + " cannot be one of the scheme " + c.scheme.String() + ": " + err.Error(),
				"Take the endpoint's secret exactly as it was shown (`postrider endpoints secret`).",
			})
		}
	}
	return out
}
