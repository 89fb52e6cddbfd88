package api

import (
	"github.com/postrider/postrider/subscriptions"
)

// newTLS is what a new endpoint has for TLS with its receiver.
type newTLS struct {
	_           struct{} `nullable:"true"`
	CA          *string  `json:"ca,omitempty" nullable:"true" doc:"Authorities, in PEM, in place of the system's; up to 32 KiB."`
	Certificate *string  `json:"certificate,omitempty" nullable:"true" doc:"A client certificate to show to the receiver, in PEM, its chain behind it; up to 16 KiB."`
	Key         *string  `json:"key,omitempty" nullable:"true" doc:"The certificate's private key, in PEM (PKCS#8, PKCS#1 or SEC 1) and without a passphrase. It is never shown again."`
}

func (b *newTLS) read() (out subscriptions.TLSPatch) {
	if b == nil {
		return out
	}
	for _, field := range []struct {
		from *string
		to   *subscriptions.Optional[string]
	}{{b.CA, &out.CA}, {b.Certificate, &out.Certificate}, {b.Key, &out.Key}} {
		*field.to = subscriptions.Optional[string]{Given: field.from != nil, Value: field.from}
	}
	return out
}

// tlsPatch is what of it shall be different.
type tlsPatch struct {
	_           struct{}         `nullable:"true"`
	CA          optional[string] `json:"ca,omitempty" nullable:"true" doc:"null: the system's authorities."`
	Certificate optional[string] `json:"certificate,omitempty" nullable:"true" doc:"Another one comes with its key; null takes both away."`
	Key         optional[string] `json:"key,omitempty" nullable:"true" doc:"Only along with the certificate."`
}

func readTLSPatch(b tlsPatch) (subscriptions.TLSPatch, bool) {
	return subscriptions.TLSPatch{CA: b.CA.Optional, Certificate: b.Certificate.Optional, Key: b.Key.Optional}, true
}

// tlsView is what is shown of it. The key is not.
type tlsView struct {
	_           struct{} `nullable:"true"`
	CA          *string  `json:"ca" doc:"null: the system's authorities."`
	Certificate *string  `json:"certificate"`
	Subject     *string  `json:"certificate_subject" example:"CN=postrider,O=Acme" doc:"Whose the client certificate is."`
	NotAfter    *stamp   `json:"certificate_not_after" nullable:"true" doc:"When it expires."`
}

func viewTLS(t subscriptions.TLS) *tlsView {
	v := tlsView{CA: unlessEmpty(t.CA), Certificate: unlessEmpty(t.Certificate)}
	if v.Certificate != nil {
		subject, notAfter := t.About()
		v.Subject, v.NotAfter = &subject, stampOf(&notAfter)
	}
	if v.CA == nil && v.Certificate == nil {
		return nil
	}
	return &v
}
