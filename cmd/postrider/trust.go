package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/internal/devreceiver"
	"github.com/postrider/postrider/internal/verifier"
	"github.com/postrider/postrider/signer"
)

// endpointTrust learns from the API whose signatures an endpoint's requests carry, the newest secret first.
func endpointTrust(ctx context.Context, c *client, tenant, name string) (devreceiver.Trust, error) {
	body, err := c.do(ctx, call{method: http.MethodGet, path: endpointPath(tenant, name)})
	if err != nil {
		return devreceiver.Trust{}, fmt.Errorf("read the endpoint: %w", err)
	}
	e, err := decode[endpoint](body)
	if err != nil {
		return devreceiver.Trust{}, err
	}
	if body, err = c.do(ctx, call{method: http.MethodGet, path: endpointPath(tenant, name, "secret")}); err != nil {
		return devreceiver.Trust{}, fmt.Errorf("read the endpoint's secret: %w", err)
	}
	s, err := decode[secrets](body)
	if err != nil {
		return devreceiver.Trust{}, err
	}
	if s.Secret == "" {
		return devreceiver.Trust{}, errors.New("the endpoint has no secret")
	}
	t := devreceiver.Trust{Scheme: signer.Scheme(e.Signature.Scheme), Header: text(e.Signature.Header), Secrets: []string{s.Secret}}
	for _, old := range s.Previous {
		t.Secrets = append(t.Secrets, old.Secret)
	}
	return t, nil
}

// secretFlags are the ways to give a receiver's secrets.
type secretFlags struct {
	variable               string // of the environment
	secrets, files         []string
	scheme, header         string
	tenant, endpoint       string
	schemeSays, tenantSays string
}

func (f *secretFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secrets, "secret", nil, "a `secret` that may have signed; may be repeated. Others on this machine can see it, --secret-file keeps it to yourself")
	flags.StringArrayVar(&f.files, "secret-file", nil, "`file` with a secret, - for the standard input; may be repeated; or "+f.variable)
	flags.StringVar(&f.scheme, "scheme", "", "how requests are signed: "+join(signer.Schemes())+" ("+f.schemeSays+")")
	flags.StringVar(&f.header, "signature-header", "", "of the scheme stripe: the `header` that carries the signature")
	flags.StringVar(&f.tenant, "tenant", "", f.tenantSays)
	flags.StringVar(&f.endpoint, "endpoint", "", "take scheme and secrets of this `endpoint` of the tenant from the server")
	judge(cmd, "scheme", among(signer.Schemes()...))
}

// read gives the secrets that were given, each with what to call it by.
func (f *secretFlags) read(w world) (out []verifier.Secret, err error) {
	for i, s := range f.secrets {
		out = append(out, verifier.Secret{Label: label("--secret", i, len(f.secrets)), Text: s})
	}
	for _, path := range f.files {
		s, err := w.secretFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, verifier.Secret{Label: "the secret in " + path, Text: s})
	}
	if s := w.env(f.variable); s != "" && len(out) == 0 {
		out = append(out, verifier.Secret{Label: f.variable, Text: s})
	}
	return out, nil
}

func label(name string, i, of int) string {
	if of == 1 {
		return name
	}
	return name + " (number " + strconv.Itoa(i+1) + ")"
}

// labelled names an endpoint's secrets.
func labelled(t devreceiver.Trust, endpoint string) (out []verifier.Secret) {
	for i, s := range t.Secrets {
		which := "the secret of " + endpoint
		if i > 0 {
			which = "a former secret of " + endpoint
		}
		out = append(out, verifier.Secret{Label: which, Text: s})
	}
	return out
}
