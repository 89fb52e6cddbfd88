package devreceiver

import "sync"

// remembered is how many keys are counted; the oldest are forgotten.
const remembered = 10_000

// counts says how often a key came.
type counts struct {
	mu  sync.Mutex
	of  map[string]int
	age []string // a ring of the keys, as they came
	at  int
}

func newCounts() *counts { return &counts{of: map[string]int{}} }

// add counts a key and says how often it came before. One that is empty is not counted.
func (c *counts) add(key string) (before int) {
	if key == "" {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.of[key]
	c.of[key]++
	switch {
	case known:
	case len(c.age) < remembered:
		c.age = append(c.age, key)
	default:
		delete(c.of, c.age[c.at])
		c.age[c.at] = key
		c.at = (c.at + 1) % remembered
	}
	return before
}
