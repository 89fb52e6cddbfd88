package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
)

// Pulled is a delivery that was fetched.
type Pulled struct {
	Token           string // what acknowledges it
	Delivery, Event id.ID
	EventType       string
	ContentType     string
	Attempt         int
	Headers         []signer.Header // as a request would have them, but for those that are about a request
	Payload         []byte          // the body that a request would have, which is what is signed
	LeasedUntil     time.Time
}

// pack makes ready what was leased. What cannot be given away goes back, or is parked, as it would if it were to be sent.
func (p *Pull) pack(ctx context.Context, leased []result) []Pulled {
	out := make([]Pulled, 0, len(leased))
	var packed, back []result
	for _, r := range leased {
		one, unfit := p.packOne(ctx, &r)
		if unfit != nil {
			back = append(back, *unfit)
			continue
		}
		out, packed = append(out, one), append(packed, r)
	}
	if ctx.Err() != nil { // nobody is there to take it
		out = nil
		for _, r := range packed {
			back = append(back, p.d.putBack(ctx, r, ctx.Err()))
		}
	}
	if len(back) > 0 {
		if _, err := p.record(context.WithoutCancel(ctx), back); err != nil { // their leases end by themselves
			p.d.log.Error().Err(err).Int("attempts", len(back)).Msg("attempts.unrecorded")
		}
	}
	return out
}

// packOne signs a delivery at this very moment, or says what becomes of it instead.
func (p *Pull) packOne(ctx context.Context, r *result) (_ Pulled, unfit *result) {
	c := &r.claimed
	no := func(becomes result) (Pulled, *result) { return Pulled{}, &becomes }
	if c.spoilt != nil {
		return no(p.d.putBack(ctx, *r, c.spoilt))
	}
	payload := c.Payload
	if c.Size != nil && *c.Size > pullBytes {
		var err error
		if payload, err = readPayload(ctx, p.d.deps.DB, c.event()); err != nil {
			return no(p.d.putBack(ctx, *r, err))
		}
	}
	body, contentType, err := c.inFormat(ctx, p.d.deps.DB, r.target, payload)
	if err != nil {
		return no(p.d.putBack(ctx, *r, err))
	}
	headers, err := p.d.sign(r, body, contentType)
	if err != nil {
		return no(unsendable(*r, err))
	}
	token, err := p.marks.token(*r)
	if err != nil {
		return no(p.d.putBack(ctx, *r, fmt.Errorf("mark a token: %w", err)))
	}
	return Pulled{
		Token: token, Delivery: c.delivery(), Event: c.event(), EventType: *c.EventType, ContentType: *contentType,
		Attempt: c.Attempts, Headers: headers, Payload: body, LeasedUntil: c.leaseEnds,
	}, nil
}
