package alert

import (
	"context"
	"fmt"
)

// slots bound how many calls of a library may hang at once: of one that takes no context, or does not heed it to the end.
type slots chan struct{}

// hanging is how many messages may hang on a channel, or mails on a server, at once.
const hanging = 32

func newSlots() slots { return make(slots, hanging) }

// wait does something in a slot, and waits for it no longer than ctx. What hangs goes on behind our back, and its slot stays taken
// until it ends. A panic is an error: what others wrote for one service takes nothing else with it.
func (s slots) wait(ctx context.Context, act func() error) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("earlier messages hang: %w", context.Cause(ctx))
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s }()
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("the service's code broke: %v", p)
			}
		}()
		done <- act()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx) //nolint:wrapcheck // it is this package's own, or of the stop
	}
}
