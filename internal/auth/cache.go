package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// cacheFor is how long a revoked key may still work in a process that did not revoke it.
	cacheFor = time.Second
	// cacheSize bounds each half of the cache. Unknown keys have their own half, so that whoever tries keys at random
	// cannot push out the good ones.
	cacheSize = 4096
)

// entry is what the database said of a hash: whose it is, if anybody's.
type entry struct {
	asked     time.Time // the moment before the question
	known     bool
	principal Principal
	expires   *time.Time // by the database's clock; nil: never
}

func (e entry) expired(now time.Time) bool { return e.expires != nil && !now.Before(*e.expires) }

type cache struct {
	tick func() time.Time // a clock that no one sets: the process's monotonic one

	mu            sync.Mutex
	good, unknown map[[sha256.Size]byte]entry
	cleared       time.Time
}

func newCache(tick func() time.Time) *cache {
	return &cache{
		tick: tick,
		good: map[[sha256.Size]byte]entry{}, unknown: map[[sha256.Size]byte]entry{},
	}
}

func (c *cache) get(hash [sha256.Size]byte) (entry, bool) {
	now := c.tick()
	c.mu.Lock()
	defer c.mu.Unlock()
	e, there := c.good[hash]
	if !there {
		e, there = c.unknown[hash]
	}
	return e, there && c.fresh(e, now)
}

// put keeps an answer, unless the question was asked before the last clear: then it may tell of what is no more.
func (c *cache) put(hash [sha256.Size]byte, e entry) {
	now := c.tick()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.asked.After(c.cleared) {
		return
	}
	delete(c.good, hash)
	delete(c.unknown, hash)
	half := c.good
	if !e.known {
		half = c.unknown
	}
	if len(half) >= cacheSize {
		c.makeRoom(half, now)
	}
	half[hash] = e
}

// makeRoom drops what is stale; when nothing is, everything: to ask again costs little, and the map stays bounded.
func (c *cache) makeRoom(half map[[sha256.Size]byte]entry, now time.Time) {
	for hash, e := range half {
		if !c.fresh(e, now) {
			delete(half, hash)
		}
	}
	if len(half) >= cacheSize {
		clear(half)
	}
}

func (c *cache) fresh(e entry, now time.Time) bool {
	return now.Sub(e.asked) < cacheFor && e.asked.After(c.cleared)
}

// clear has every answer asked for again. What was a good key stays known as one that was: see lately.
func (c *cache) clear() {
	now := c.tick()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.unknown)
	c.cleared = now
}

// lately reports whether the hash was a key's when it was asked for last, however long ago. When there are more keys than
// the cache holds, some are forgotten.
func (c *cache) lately(hash [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.good[hash]
	return there
}
