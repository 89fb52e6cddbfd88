package id

import (
	"sync"
	"time"
)

// Generator makes numbers that are unique over all processes, as long as no two live ones share a node, and that
// only ever grow within one process, whatever its clock does. It is safe for concurrent use.
type Generator struct {
	node int64
	now  func() time.Time

	mu   sync.Mutex
	last int64 // milliseconds << seqBits | sequence: the place of the last id made
}

// maxAhead is how far ahead of the clock Above follows a number. Clocks of processes that read the database's differ by
// far less; what is beyond is a mistake, which must not become that of all ids to come.
const maxAhead = 5 * time.Minute

// NewGenerator makes a generator for the node (0 to MaxNode, leased from the database, so that no two live processes
// have the same) that reads the time from now.
func NewGenerator(node int, now func() time.Time) *Generator {
	return &Generator{node: int64(node) & MaxNode, now: now}
}

// Next gives the next number. 4,096 fit into a millisecond; beyond that it runs ahead of the clock rather than wait.
func (g *Generator) Next() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = max(g.last+1, max(g.now().Sub(epoch).Milliseconds(), 0)<<seqBits)
	return g.last>>seqBits<<lowBits | g.node<<seqBits | g.last&seqMask
}

// Above has all numbers from now on be greater than n, whichever node made it: at most, they go on in the millisecond
// after n's. An n that lies more than five minutes ahead of the clock is ignored.
func (g *Generator) Above(n int64) {
	ms, low := n>>lowBits, n&(1<<lowBits-1)
	g.mu.Lock()
	defer g.mu.Unlock()
	if TimeOf(n).Sub(g.now()) > maxAhead {
		return
	}
	var least int64 // the first place whose number is greater
	switch node := low >> seqBits; {
	case node < g.node:
		least = ms << seqBits
	case node == g.node:
		least = (ms<<seqBits | low&seqMask) + 1
	default: // a greater node, or PostgreSQL
		least = (ms + 1) << seqBits
	}
	g.last = max(g.last, least-1)
}

// In makes the next id in a bucket.
func (g *Generator) In(shard int16) ID { return ID{Shard: shard, N: g.Next()} }

// NewTenant makes a tenant's id, which lies in the bucket its own number hashes to.
func (g *Generator) NewTenant() ID {
	n := g.Next()
	return ID{Shard: Bucket(n), N: n}
}
