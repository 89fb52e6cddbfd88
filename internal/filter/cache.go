package filter

import "sync"

// maxCached bounds each half of a Cache.
const maxCached = 2048

// Cache remembers expressions that were read by their text, also those that cannot be read. The zero Cache is empty; it may
// be used by several goroutines at once. It keeps what was asked for of late: when one half is full, the other is dropped.
type Cache struct {
	mu       sync.Mutex
	new, old map[string]read
}

type read struct {
	filter *Filter
	err    error
}

// Get is Compile, once for each text.
func (c *Cache) Get(text string) (*Filter, error) {
	r, known := c.find(text)
	if !known { // without the lock: two who read the same at once do no harm
		r.filter, r.err = Compile(text)
		c.keep(text, r)
	}
	return r.filter, r.err
}

func (c *Cache) find(text string) (r read, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, known = c.new[text]; known {
		return r, true
	}
	if r, known = c.old[text]; known {
		c.put(text, r)
	}
	return r, known
}

func (c *Cache) keep(text string, r read) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(text, r)
}

// put is for who holds the lock.
func (c *Cache) put(text string, r read) {
	if c.new == nil || len(c.new) >= maxCached {
		c.old, c.new = c.new, make(map[string]read)
	}
	c.new[text] = r
}
