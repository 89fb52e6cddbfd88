package api

import (
	"context"
	"net/url"

	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
)

// portalEnter is the page that a link into a portal leads to.
const portalEnter = "/portal/enter"

type newPortalSession struct {
	ExpiresIn *string `json:"expires_in,omitempty" nullable:"true" example:"5m" doc:"How long the link is good, 1m to 1h; 5m if absent. It opens once; what it opens lasts portal.session."`
	ReadOnly  *bool   `json:"read_only,omitempty" nullable:"true" doc:"Who enters by it may look and change nothing."`
}

func (newPortalSession) example() string { return `{"expires_in":"5m"}` }

type createPortalSessionIn struct{ Body *newPortalSession }

// portalSessionView is the link. It is shown once: only its hash is kept.
type portalSessionView struct {
	URL       string `json:"url" format:"uri" example:"https://hooks.example.com/portal/enter?token=prl_…" doc:"Opens the portal once. Send the person's browser there, or a frame of your page; whoever has it can use it."`
	ExpiresAt stamp  `json:"expires_at" doc:"From then on the link opens nothing."`
}

type portalSessionOut struct{ Body portalSessionView }

func (s *server) createPortalSession(ctx context.Context, in *createPortalSessionIn) (*portalSessionOut, error) {
	o := auth.PortalLinkOptions{By: caller(ctx)}
	if in.Body != nil {
		if in.Body.ExpiresIn != nil {
			var faults fault.Fields
			span, ok := parseSpan(&faults, "/expires_in", *in.Body.ExpiresIn)
			if ok && span == 0 {
				faults.Addf("/expires_in", "has to be 1m to 1h")
			}
			if err := faults.Err(); err != nil {
				return nil, err
			}
			o.ExpiresIn = span
		}
		o.ReadOnly = in.Body.ReadOnly != nil && *in.Body.ReadOnly
	}
	token, expiresAt, err := s.d.Sessions.CreatePortalLink(ctx, tenantOf(ctx).ID, o)
	if err != nil {
		return nil, err
	}
	link := s.d.PublicURL + portalEnter + "?" + url.Values{"token": {token}}.Encode()
	return &portalSessionOut{Body: portalSessionView{URL: link, ExpiresAt: stamp(expiresAt)}}, nil
}
