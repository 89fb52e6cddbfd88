package subscriptions

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/seal"
)

// TLS is what an endpoint's owner wants of TLS with its receiver, in PEM. The key of the certificate is never shown.
type TLS struct {
	CA          string // authorities in place of the system's; "": the system's
	Certificate string // shown to the receiver, the client's own first; "": none

	key []byte // PKCS#8, on its way to the database; nil: the one that is there stays
}

// About says whose the client certificate is and until when it is valid; zero if there is none.
func (t TLS) About() (subject string, notAfter time.Time) {
	if t.Certificate == "" {
		return "", time.Time{}
	}
	subject, notAfter, _ = clienttls.Describe(t.Certificate) // it was judged when it was saved
	return subject, notAfter
}

// TLSPatch is what of an endpoint's TLS shall be different; null takes it away. A certificate and its key come together.
type TLSPatch struct {
	CA, Certificate, Key Optional[string]
}

// applyTLS does the part of apply that is about TLS. now is what certificates are held against.
func applyTLS(faults *fault.Fields, e *Endpoint, o Optional[TLSPatch], now time.Time) {
	switch {
	case !o.Given:
		return
	case o.Value == nil:
		e.TLS = TLS{}
		return
	}
	if ca := o.Value.CA; ca.Given && ca.Value == nil {
		e.TLS.CA = ""
	} else {
		set(faults, "/tls/ca", ca, &e.TLS.CA, "", func(text string) (string, error) { return clienttls.CheckCA(text, now) })
	}
	applyPair(faults, e, *o.Value, now)
}

func applyPair(faults *fault.Fields, e *Endpoint, p TLSPatch, now time.Time) {
	const atCertificate, atKey = "/tls/certificate", "/tls/key"
	withKey := p.Key.Value != nil
	switch {
	case !p.Certificate.Given && withKey:
		faults.Addf(atCertificate, "is required beside a key")
		return
	case !p.Certificate.Given:
		if p.Key.Given && e.TLS.Certificate != "" {
			faults.Addf(atKey, "goes only together with its certificate")
		}
		return
	case p.Certificate.Value == nil:
		if withKey {
			faults.Addf(atKey, "is of no use without a certificate")
		}
		e.TLS.Certificate = ""
		return
	}
	certificate, err := clienttls.CheckCertificate(*p.Certificate.Value, now)
	faults.Add(atCertificate, err)
	if !withKey {
		if err == nil && (p.Key.Given || certificate != e.TLS.Certificate) {
			faults.Addf(atKey, "is required: a certificate comes with its key")
		}
		return
	}
	key, keyErr := clienttls.ReadKey(*p.Key.Value)
	faults.Add(atKey, keyErr)
	if err != nil || keyErr != nil {
		return
	}
	if err := clienttls.Match(certificate, key); err != nil {
		faults.Add(atKey, err)
		return
	}
	e.TLS.Certificate, e.TLS.key = certificate, key
}

// checkTLSIsUsed refuses what would be passed over in silence.
func checkTLSIsUsed(faults *fault.Fields, e Endpoint, p EndpointPatch) {
	if (p.TLS.Given || p.URL.Given) && e.hasTLS() && strings.HasPrefix(e.URL, "http://") {
		faults.Addf("/tls", "is of no use to an endpoint whose URL is plain http")
	}
}

func (e Endpoint) hasTLS() bool { return e.TLS.CA != "" || e.TLS.Certificate != "" }

// tlsKeyColumns gives the sealed key as it shall stand: the one of the row, unless e brings another or has no certificate.
func (s *Store) tlsKeyColumns(ctx context.Context, tx pgx.Tx, e Endpoint, r endpointRow) (keyID *string, sealed []byte, err error) {
	switch {
	case e.TLS.Certificate == "":
		return nil, nil, nil
	case e.TLS.key == nil:
		return r.TLSKeyID, r.TLSKeySealed, nil
	}
	name, sealed, err := s.box.Seal(ctx, tx, e.TLS.key, seal.EndpointTLSKeyAD(e.ID), e.UpdatedAt)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt the client certificate's key: %w", err)
	}
	return &name, sealed, nil
}

func (s *Store) openTLSKey(e id.ID, keyID string, sealed []byte) ([]byte, error) {
	key, err := s.box.Open(keyID, sealed, seal.EndpointTLSKeyAD(e))
	if err != nil {
		return nil, fmt.Errorf("open the client certificate's key: %w", err)
	}
	return key, nil
}

// identity makes what connections of an endpoint are made with; nil if it has nothing of its own.
func (s *Store) identity(e id.ID, p sealedTLS) (*clienttls.Identity, error) {
	if p.ca == "" && p.certificate == "" {
		return nil, nil //nolint:nilnil // no identity is the rule
	}
	var key []byte
	if p.certificate != "" {
		var err error
		if key, err = s.openTLSKey(e, p.keyID, p.key); err != nil {
			return nil, err
		}
	}
	identity, err := clienttls.New(id.Endpoint.Format(e), p.ca, p.certificate, key)
	if err != nil {
		return nil, fmt.Errorf("use the endpoint's TLS: %w", err)
	}
	return identity, nil
}
