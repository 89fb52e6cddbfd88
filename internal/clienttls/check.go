package clienttls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// CheckCA judges a bundle of authorities at now and gives it as it is kept. A certificate that is no authority's is taken:
// it is how a receiver's self-signed one is trusted, and nothing else with it.
func CheckCA(text string, now time.Time) (string, error) {
	certs, kept, err := certificates(text, MaxCA, maxAuthorities)
	if err != nil {
		return "", err
	}
	usable := false
	for i, cert := range certs {
		if err := strong(cert.PublicKey); err != nil {
			return "", fmt.Errorf("certificate %d: its key %w", i+1, err)
		}
		usable = usable || now.Before(cert.NotAfter)
	}
	if !usable {
		return "", errors.New("has no certificate that has not expired")
	}
	return kept, nil
}

// CheckCertificate judges a chain, the client's own certificate first, and gives it as it is kept.
func CheckCertificate(text string, now time.Time) (string, error) {
	certs, kept, err := certificates(text, MaxCertificate, maxChain)
	if err != nil {
		return "", err
	}
	if leaf := certs[0]; !now.Before(leaf.NotAfter) {
		return "", fmt.Errorf("expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return kept, nil
}

// ReadKey judges a private key and gives it as PKCS#8.
func ReadKey(text string) ([]byte, error) {
	found, err := blocks(text, MaxKey)
	if err != nil {
		return nil, err
	}
	if len(found) == 2 && found[0].Type == "EC PARAMETERS" { // `openssl ecparam -genkey` puts the curve first
		found = found[1:]
	}
	if len(found) > 1 {
		return nil, errors.New("has more than one PEM block; it has to be one private key alone")
	}
	key, err := parseKey(found[0])
	if err != nil {
		return nil, err
	}
	if err := strong(key.Public()); err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("is of a kind that is not taken")
	}
	return der, nil
}

func parseKey(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch {
	case block.Type == "ENCRYPTED PRIVATE KEY", strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
		return nil, errors.New("is encrypted; it has to be given without a passphrase")
	case block.Type == "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case block.Type == "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case block.Type == "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case block.Type == "CERTIFICATE":
		return nil, errors.New("is a certificate and no private key")
	default:
		return nil, errors.New("is no private key of the kinds PKCS#8, PKCS#1 and SEC 1")
	}
	if err != nil {
		return nil, errors.New("cannot be read as a private key") // err may speak of what is in it
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("cannot sign")
	}
	return signer, nil
}

// strong refuses keys that no receiver should rely on, and those whose use would take a noticeable part of a second.
func strong(public crypto.PublicKey) error {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < 2048 || bits > 8192 {
			return fmt.Errorf("is RSA of %d bits, and not of 2048 to 8192", bits)
		}
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			return errors.New("is ECDSA on another curve than P-256, P-384 and P-521")
		}
	case ed25519.PublicKey:
	default:
		return errors.New("is neither RSA nor ECDSA nor Ed25519")
	}
	return nil
}

// Match checks that a key, as ReadKey gives it, is that of the first certificate of a chain.
func Match(certificate string, key []byte) error {
	certs, _, err := certificates(certificate, MaxCertificate, maxChain)
	if err != nil {
		return err
	}
	signer, err := openKey(key)
	if err != nil {
		return err
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return errors.New("cannot be compared")
	}
	for i, cert := range certs {
		switch {
		case !public.Equal(cert.PublicKey):
		case i == 0:
			return nil
		default:
			return fmt.Errorf("is the key of certificate %d in the chain; its certificate has to come first", i+1)
		}
	}
	return errors.New("is not the key of the certificate")
}

func openKey(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("the private key cannot be read")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the private key cannot sign")
	}
	return signer, nil
}
