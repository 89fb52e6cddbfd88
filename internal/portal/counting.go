package portal

import (
	"sync"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// mostCounting is how many tenants' windows are counted at once: half of the places for searches, which staff and the API have too.
const mostCounting = 2

// counting bounds what tenants have counted, each of which may take some seconds and searches all the while: one window a tenant,
// however many pages it has open, and few in all. Its zero value is ready.
type counting struct {
	mu  sync.Mutex
	who map[id.ID]struct{}
}

// do counts if there is room, and else says so at once: whoever waited would hold a request up instead.
func (c *counting) do(tenant id.ID, count func() error) error {
	if !c.begin(tenant) {
		return fault.New(fault.TooMany, "other events are being counted just now; try again in a moment")
	}
	defer c.end(tenant)
	return count()
}

func (c *counting) begin(tenant id.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, already := c.who[tenant]; already || len(c.who) >= mostCounting {
		return false
	}
	if c.who == nil {
		c.who = map[id.ID]struct{}{}
	}
	c.who[tenant] = struct{}{}
	return true
}

func (c *counting) end(tenant id.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.who, tenant)
}
