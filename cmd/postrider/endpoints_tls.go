package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// tlsFlags are files with what an endpoint has for TLS with its receiver.
type tlsFlags struct{ ca, certificate, key string }

// tlsTexts say in --help what they do.
type tlsTexts struct{ ca, certificate, key string }

var (
	tlsOfCreate = tlsTexts{
		ca:          "`file` with authorities (PEM) to check the receiver's certificate against (default: the system's)",
		certificate: "`file` with a client certificate (PEM) to show to the receiver, its chain behind it; needs --tls-key",
		key:         "`file` with the client certificate's private key (PEM), - for the standard input",
	}
	tlsOfUpdate = tlsTexts{
		ca:          "`file` with other authorities (PEM); empty: the system's",
		certificate: "`file` with another client certificate (PEM), needs --tls-key; empty: none, and its key goes too",
		key:         "`file` with the client certificate's private key (PEM), - for the standard input",
	}
)

func (f *tlsFlags) flags(cmd *cobra.Command, t tlsTexts) {
	cmd.Flags().StringVar(&f.ca, "tls-ca", "", t.ca)
	cmd.Flags().StringVar(&f.certificate, "tls-certificate", "", t.certificate)
	cmd.Flags().StringVar(&f.key, "tls-key", "", t.key)
}

// put reads the files that were given. An empty name takes away what there is.
func (f *tlsFlags) put(cmd *cobra.Command, w world, fields map[string]any) error {
	settings := map[string]any{}
	for _, one := range []struct{ flag, field, file string }{
		{"tls-ca", "ca", f.ca}, {"tls-certificate", "certificate", f.certificate}, {"tls-key", "key", f.key},
	} {
		switch {
		case !cmd.Flags().Changed(one.flag):
		case one.file == "":
			settings[one.field] = nil
		default:
			text, err := readFile(one.file, w.stdin)
			if err != nil {
				return fmt.Errorf("read --%s: %w", one.flag, err)
			}
			settings[one.field] = string(text)
		}
	}
	if len(settings) > 0 {
		fields["tls"] = settings
	}
	return nil
}

// endpointTLS is what of an endpoint's TLS is shown to people.
type endpointTLS struct {
	CA       *string    `json:"ca"`
	Subject  *string    `json:"certificate_subject"`
	NotAfter *time.Time `json:"certificate_not_after"`
}

// tlsWords says in a line what an endpoint has of its own.
func (w world) tlsWords(t *endpointTLS) string {
	if t == nil {
		return "the system's authorities, no client certificate"
	}
	words := "the system's authorities"
	if t.CA != nil {
		words = "its own authorities"
	}
	if t.NotAfter != nil {
		words += ", the client certificate of " + strings.TrimSpace(text(t.Subject)) + " until " + w.clock(t.NotAfter)
	}
	return words
}
