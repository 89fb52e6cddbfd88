package api

import (
	"sync"

	"github.com/postrider/postrider/internal/id"
)

// uids remembers which tenant had a uid when the gate last looked. Whoever asks has to have it confirmed.
type uids struct {
	mu   sync.RWMutex
	seen map[string]id.ID
}

// mostUIDs bounds the memory; when it is full, it begins anew.
const mostUIDs = 16 << 10

func (u *uids) get(uid string) (tenant id.ID, ok bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	tenant, ok = u.seen[uid]
	return tenant, ok
}

func (u *uids) put(uid string, tenant id.ID) {
	if seen, ok := u.get(uid); ok && seen == tenant {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen == nil || len(u.seen) >= mostUIDs {
		u.seen = map[string]id.ID{}
	}
	u.seen[uid] = tenant
}

func (u *uids) forget(uid string) {
	if _, seen := u.get(uid); !seen {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.seen, uid)
}
