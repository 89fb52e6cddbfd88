package alert

import "context"

// What the tests look into.
const (
	DueBucketsSQL = dueBucketsSQL
	ResolveSQL    = resolveSQL
)

// SendDigest is what Run does of it.
func (s *Sender) SendDigest(ctx context.Context) error { return s.sendDigest(ctx) }
