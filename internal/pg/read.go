package pg

import (
	"context"
	"time"
)

// ReadAgain runs what only reads, outside of a transaction of ours, and once more if its connection broke off or another
// transaction was in the way. A server that cannot be connected to is not waited for.
func ReadAgain[T any](ctx context.Context, read func() (T, error)) (T, error) {
	v, err := read()
	if err == nil || !clash(err) && !parted(err) {
		return v, err
	}
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
		return v, err
	}
	return read()
}
