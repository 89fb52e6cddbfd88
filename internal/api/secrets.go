package api

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/duration"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/subscriptions"
)

// secretView is what signs for an endpoint now.
type secretView struct {
	Secret    string               `json:"secret" doc:"The current one."`
	PublicKey *string              `json:"public_key" doc:"Of standard-ed25519: what the receiver verifies with."`
	CreatedAt stamp                `json:"created_at"`
	Previous  []previousSecretView `json:"previous" nullable:"false" doc:"Those that sign beside it until a rotation's overlap ends, newest first."`
}

type previousSecretView struct {
	Secret    string `json:"secret"`
	CreatedAt stamp  `json:"created_at"`
	ExpiresAt *stamp `json:"expires_at" nullable:"true"`
}

type secretOut struct{ Body secretView }

func (s *server) readSecret(ctx context.Context, in *EndpointIn) (*secretOut, error) {
	secrets, err := s.d.Subscriptions.Secret(ctx, tenantOf(ctx), in.Endpoint)
	if err != nil {
		return nil, err
	}
	return &secretOut{Body: viewSecrets(secrets)}, nil
}

func viewSecrets(secrets []subscriptions.SecretInfo) secretView {
	v := secretView{Previous: []previousSecretView{}}
	for i, info := range secrets {
		if i > 0 {
			v.Previous = append(v.Previous, previousSecretView{
				Secret: info.Secret.Reveal(), CreatedAt: stamp(info.CreatedAt), ExpiresAt: stampOf(info.ExpiresAt),
			})
			continue
		}
		v.Secret, v.CreatedAt = info.Secret.Reveal(), stamp(info.CreatedAt)
		if public := info.Secret.PublicKey(); public != "" {
			v.PublicKey = &public
		}
	}
	return v
}

// defaultOverlap is how long the old secret goes on signing unless the call says otherwise.
const defaultOverlap = 24 * time.Hour

type rotation struct {
	Secret  *string `json:"secret,omitempty" nullable:"true" doc:"Absent: one is made."`
	Overlap *string `json:"overlap,omitempty" nullable:"true" example:"24h" doc:"How long the old secret signs as well; 24h if absent. The schemes github and timestamped-hex take only 0s."`
}

func (rotation) example() string { return `{"overlap":"24h"}` }

type rotateIn struct {
	EndpointIn
	Body *rotation
}

func (s *server) rotateSecret(ctx context.Context, in *rotateIn) (*secretOut, error) {
	var faults fault.Fields
	secret, overlap := "", defaultOverlap
	if in.Body != nil {
		secret = givenSecret(&faults, "/secret", in.Body.Secret)
		if in.Body.Overlap != nil {
			d, err := duration.Parse(*in.Body.Overlap)
			faults.Add("/overlap", err)
			overlap = d
		}
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	if _, _, err := s.d.Subscriptions.RotateSecret(ctx, tenantOf(ctx), in.Endpoint, secret, overlap); err != nil {
		return nil, err
	}
	return s.readSecret(ctx, &in.EndpointIn)
}
