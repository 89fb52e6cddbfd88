package pg

import "context"

// Renew renews the lease once, now.
func (n *Node) Renew(ctx context.Context) error { return n.renew(ctx) }
