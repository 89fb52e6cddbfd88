// Package clienttls reads what an endpoint's owner gives for TLS with its receiver: authorities to check the receiver's
// certificate against, and a certificate with its key to show there.
//
// Checks are pure and say in words for the owner what is wrong; none repeats any of the text, which may be a key in the
// wrong place. What they give back is the text as it is kept: the PEM blocks alone, and a key as PKCS#8. The package knows
// no table and no network: who stores a key encrypts it, and internal/egress makes connections of an Identity.
package clienttls

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Limits of what is taken. A chain is a leaf and a few intermediates; a bundle is a company's own authorities and not the
// web's, which the system has. An RSA key of 8192 bits is 6 KiB of PEM.
const (
	MaxCA          = 32 << 10 // bytes of PEM
	MaxCertificate = 16 << 10
	MaxKey         = 16 << 10
	maxAuthorities = 32
	maxChain       = 10
)

const begin = "-----BEGIN "

// blocks takes a text apart into its PEM blocks. Words before a block, as OpenSSL prints them, are left out (RFC 7468,
// section 2); words after the last one are not taken, since they tend to be the rest of a block that was cut.
func blocks(text string, limit int) ([]*pem.Block, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("is empty")
	case len(text) > limit:
		return nil, fmt.Errorf("is more than %d bytes", limit)
	}
	var found []*pem.Block
	rest := []byte(text)
	for {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		found, rest = append(found, block), after
	}
	switch {
	case len(found) == 0 && !strings.Contains(text, begin):
		return nil, errors.New("is not PEM: it has no line that begins with -----BEGIN")
	case len(found) != strings.Count(text, begin):
		return nil, errors.New("has a PEM block that cannot be read") // pem.Decode passes over such
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("has something behind its last PEM block")
	}
	return found, nil
}

// certificates reads a text of nothing but certificates, and gives it as it is kept.
func certificates(text string, limit, most int) ([]*x509.Certificate, string, error) {
	found, err := blocks(text, limit)
	if err != nil {
		return nil, "", err
	}
	if len(found) > most {
		return nil, "", fmt.Errorf("has more than %d certificates", most)
	}
	var kept strings.Builder
	certs := make([]*x509.Certificate, 0, len(found))
	for i, block := range found {
		switch {
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil, "", errors.New("holds a private key, which belongs into key and nowhere else")
		case block.Type != "CERTIFICATE":
			return nil, "", fmt.Errorf("block %d is no certificate", i+1)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, "", fmt.Errorf("block %d cannot be read as a certificate", i+1)
		}
		certs = append(certs, cert)
		kept.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	if kept.Len() > limit { // it came with longer lines
		return nil, "", fmt.Errorf("is more than %d bytes", limit)
	}
	return certs, kept.String(), nil
}
