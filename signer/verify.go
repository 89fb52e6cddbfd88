package signer

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Why a request does not verify; errors.Is tells them apart. A faulty secret is an Invalid fault instead.
var (
	ErrMissingHeader = errors.New("a header is missing")
	ErrBadHeader     = errors.New("a header cannot be read")
	ErrTooOld        = errors.New("the timestamp is too old")
	ErrTooNew        = errors.New("the timestamp is too far in the future")
	ErrNoMatch       = errors.New("no signature matches")
)

const (
	maxSignatures      = 16 // in one header; a request from Postrider has as many as secrets overlap
	maxTimestampDigits = 12 // the year 33658, and far from any overflow
)

// Verify is the receiver's side of Sign: nil when the request was signed with the secret and its timestamp is no more
// than tolerance away from now, either way. headers gives a header's value by its name in any case, "" where there is
// none: http.Header's Get. headerName is the name chosen for stripe's header, "" for the default.
//
// For standard-ed25519 the secret may be the public key (whpk_…) or the private one. github signs no timestamp, so
// there now and tolerance mean nothing and a replay goes unnoticed. A tolerance of 0 or less is an error, so that a
// forgotten one does not pass for "any time".
func Verify(scheme Scheme, headerName, secret string, headers func(name string) string, body []byte,
	now time.Time, tolerance time.Duration,
) error {
	check := checker{headers: headers, body: body, now: now, tolerance: tolerance}
	if err := check.setSecret(scheme, secret); err != nil {
		return err
	}
	if scheme != GitHub && tolerance <= 0 {
		return fmt.Errorf("signer: verify with a tolerance of %s; it has to be more than 0", tolerance)
	}
	switch scheme {
	case Standard, StandardEd25519:
		return check.standard()
	case Stripe:
		return check.stripe(SignatureHeader(scheme, headerName))
	case GitHub:
		return check.github()
	case TimestampedHex:
		return check.timestampedHex()
	}
	return fmt.Errorf("signer: verify with the unknown scheme %q", string(scheme))
}

type checker struct {
	headers   func(name string) string
	body      []byte
	now       time.Time
	tolerance time.Duration
	key       *key              // all schemes but standard-ed25519
	public    ed25519.PublicKey // standard-ed25519
}

func (c *checker) setSecret(scheme Scheme, text string) (err error) {
	if scheme == StandardEd25519 && strings.HasPrefix(text, prefixPublic) {
		c.public, err = parsePublic(text)
		return err
	}
	secret, err := ParseSecret(scheme, text)
	if err != nil {
		return err
	}
	c.key = secret.open()
	if scheme == StandardEd25519 {
		c.public = ed25519.PublicKey(c.key.private[ed25519.SeedSize:])
	}
	return nil
}

func (c *checker) standard() error {
	id, err := c.need(HeaderID)
	if err != nil {
		return err
	}
	if !isID(id) {
		return fmt.Errorf("%w: %s holds a dot, a blank or a character that is not printable ASCII", ErrBadHeader, HeaderID)
	}
	timestamp, err := c.need(HeaderTimestamp)
	if err != nil {
		return err
	}
	if err := c.checkTime(HeaderTimestamp, timestamp); err != nil {
		return err
	}
	value, err := c.need(HeaderSignature)
	if err != nil {
		return err
	}
	if c.public != nil {
		message := signedBytes(id, timestamp, c.body)
		return matchAny(HeaderSignature, value, " ", "v1a,", func(signature string) bool {
			raw, err := base64.StdEncoding.Strict().DecodeString(signature)
			return err == nil && len(raw) == ed25519.SignatureSize && ed25519.Verify(c.public, message, raw)
		})
	}
	sum := c.key.mac(id, timestamp, c.body)
	want := base64.StdEncoding.AppendEncode(nil, sum[:])
	return matchAny(HeaderSignature, value, " ", "v1,", func(signature string) bool {
		return subtle.ConstantTimeCompare([]byte(signature), want) == 1
	})
}

func (c *checker) stripe(name string) error {
	value, err := c.need(name)
	if err != nil {
		return err
	}
	timestamp, times := "", 0
	for part := range strings.SplitSeq(value, ",") {
		if text, ok := strings.CutPrefix(part, "t="); ok {
			timestamp = text
			times++
		}
	}
	if times != 1 {
		return fmt.Errorf("%w: %s holds %d timestamps (t=…) and not one", ErrBadHeader, name, times)
	}
	if err := c.checkTime(name, timestamp); err != nil {
		return err
	}
	sum := c.key.mac("", timestamp, c.body)
	return matchAny(name, value, ",", "v1=", equalHex(sum[:]))
}

func (c *checker) github() error {
	value, err := c.need(HeaderGitHubSignature)
	if err != nil {
		return err
	}
	sum := c.key.mac("", "", c.body)
	return matchAny(HeaderGitHubSignature, value, "", "sha256=", equalHex(sum[:]))
}

func (c *checker) timestampedHex() error {
	timestamp, err := c.need(HeaderHexTimestamp)
	if err != nil {
		return err
	}
	if err := c.checkTime(HeaderHexTimestamp, timestamp); err != nil {
		return err
	}
	value, err := c.need(HeaderHexSignature)
	if err != nil {
		return err
	}
	sum := c.key.mac("", timestamp, c.body)
	return matchAny(HeaderHexSignature, value, "", "", equalHex(sum[:]))
}

func (c *checker) need(name string) (string, error) {
	value := c.headers(name)
	if value == "" {
		return "", fmt.Errorf("%w: %s", ErrMissingHeader, name)
	}
	return value, nil
}

// checkTime reads only plain digits. "+5", "0x5" or "5.1" would be other bytes to sign for what other receivers may
// take as the same time.
func (c *checker) checkTime(name, text string) error {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || len(text) > maxTimestampDigits || text[0] < '0' || text[0] > '9' {
		return fmt.Errorf("%w: the timestamp in %s is not in whole Unix seconds", ErrBadHeader, name)
	}
	switch age := c.now.Sub(time.Unix(seconds, 0)); {
	case age > c.tolerance:
		return fmt.Errorf("%w: signed %s ago, allowed are %s", ErrTooOld, age.Round(time.Second), c.tolerance)
	case age < -c.tolerance:
		return fmt.Errorf("%w: %s ahead, allowed are %s", ErrTooNew, (-age).Round(time.Second), c.tolerance)
	}
	return nil
}

// matchAny tries each signature of the right version in a header's list. An empty separator means that the header
// holds a single one. Signatures of other versions are passed over, as the schemes ask.
func matchAny(name, value, separator, version string, matches func(signature string) bool) error {
	parts := []string{value}
	if separator != "" {
		parts = strings.Split(value, separator)
	}
	tried := 0
	for _, part := range parts {
		signature, ok := strings.CutPrefix(part, version)
		if !ok {
			continue
		}
		if tried++; tried > maxSignatures {
			return fmt.Errorf("%w: %s holds more than %d signatures", ErrBadHeader, name, maxSignatures)
		}
		if matches(signature) {
			return nil
		}
	}
	if tried == 0 {
		return fmt.Errorf("%w: %s holds none that begins with %q", ErrNoMatch, name, version)
	}
	return fmt.Errorf("%w: another secret signed it, or the body or the signed headers were changed", ErrNoMatch)
}

func equalHex(want []byte) func(signature string) bool {
	return func(signature string) bool {
		raw, err := hex.DecodeString(signature)
		return err == nil && hmac.Equal(raw, want)
	}
}
