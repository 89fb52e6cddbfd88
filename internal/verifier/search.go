package verifier

import (
	"bytes"
	"iter"

	"github.com/postrider/postrider/signer"
)

// effort bounds how many bytes are hashed in all: about a second's worth.
const effort = 512 << 20

// explanation is a way in which the signature is right.
type explanation struct {
	secret   string
	findings []Finding
}

// search tries every key with every head and every body, those with the fewest twists first, until one made a signature
// of the header. A match is no guess: nobody makes one without the secret.
func (c *claim) search() *explanation {
	if len(c.digests) == 0 {
		return nil
	}
	var keys []key
	for _, s := range c.Secrets {
		keys = append(keys, c.keys(s)...)
	}
	left := effort
	for t := range tries(keys, c.heads(), c.bodies()) {
		if left -= len(t.head.text) + len(t.body.bytes) + 64; left < 0 {
			return nil
		}
		if d, ok := c.madeBy(t.key, t.head, t.body); ok {
			return c.explain(t.key, t.head, t.body, d)
		}
	}
	return nil
}

type try struct {
	key  key
	head head
	body body
}

// tries are all combinations, those with the fewest twists first.
func tries(keys []key, heads []head, bodies []body) iter.Seq[try] {
	return func(yield func(try) bool) {
		for twists := range 4 {
			for _, k := range keys {
				for _, h := range heads {
					for _, b := range bodies {
						if k.weight()+h.weight()+b.weight() == twists && !yield(try{k, h, b}) {
							return
						}
					}
				}
			}
		}
	}
}

func (c *claim) madeBy(k key, h head, b body) (digest, bool) {
	var sum []byte
	if k.public == nil {
		sum = k.sum(h.text, b.bytes)
	}
	for _, d := range c.digests {
		if k.public == nil && bytes.Equal(sum, d.raw) || k.public != nil && k.made(d, h.text, b.bytes) {
			return d, true
		}
	}
	return digest{}, false
}

func (c *claim) explain(k key, h head, b body, d digest) *explanation {
	e := &explanation{secret: k.secret}
	for _, t := range []twist{k.twist, h.twist, b.twist} {
		if t.code != "" {
			e.findings = append(e.findings, Finding{t.code, t.says, t.do})
		}
	}
	e.findings = append(e.findings, c.writing(d)...)
	return e
}

// noMatch is for a signature that nothing explains. others says how many things were found wrong that may be why.
func (c *claim) noMatch(others int) (out []Finding) {
	if len(c.Request.Body) == 0 {
		out = append(out, Finding{
			"body_missing", "the body is empty", "If one was sent, something has read it before: keep the raw bytes and verify those.",
		})
	}
	if bytes.ContainsRune(c.Request.Body, '\ufffd') {
		out = append(out, Finding{
			"body_replaced", "the body holds replacement characters (U+FFFD): it was read as text that it is not", rawBody,
		})
	}
	if others > 0 || len(c.digests) == 0 {
		return out
	}
	do := "Compare the secret with `postrider endpoints secret`: each endpoint has its own, and one from before a rotation does not sign any more. "
	if c.scheme == signer.StandardEd25519 {
		do = "Compare the public key with `postrider endpoints secret`: each endpoint has its own. "
	}
	return append(out, Finding{
		"no_match", "none of the secrets made the signature, also not over the body or the headers as they are often changed on the way",
		do + rawBody + " Parsing numbers and writing them again (1.0 as 1) cannot be taken back here.",
	})
}
