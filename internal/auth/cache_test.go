package auth

import (
	"crypto/sha256"
	"testing"
	"time"
)

// A question that was under way when a key was revoked may have been answered before: its answer is not kept.
func TestAnAnswerFromBeforeAClearIsNotKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c := newCache(func() time.Time { return now })
	hash := sha256.Sum256([]byte("key"))
	e := entry{asked: now, known: true}
	now = now.Add(time.Millisecond)
	c.clear()
	c.put(hash, e)
	if _, there := c.get(hash); there {
		t.Error("it is kept")
	}
	e.asked = now.Add(time.Millisecond)
	now = e.asked
	c.put(hash, e)
	if _, there := c.get(hash); !there {
		t.Error("one from after it is not kept")
	}
}
