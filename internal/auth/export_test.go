package auth

import "time"

// SetTick gives the cache a clock of the test's own.
func (k *Keys) SetTick(tick func() time.Time) { k.cache.tick = tick }

// AwaitUses waits until the uses that are being written are written.
func (k *Keys) AwaitUses() { k.usage.writing.Wait() }

// CacheSize bounds each half of the cache.
const CacheSize = cacheSize

// Cached is how many answers are remembered.
func (k *Keys) Cached() (good, unknown int) { return len(k.cache.good), len(k.cache.unknown) }
