package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/pulse"
)

// part is something that runs for as long as the process does.
type part struct {
	name string
	run  func(ctx context.Context) error // until ctx ends, and then until what it had begun is over
	stop time.Duration                   // how long that may take
	// still says for how long the part has not gone round; nil: it has no rounds, or may rightly take long over one.
	still func() pulse.Still
}

// supervise starts the parts in order and waits until ctx ends or one of them does; then it stops them all, last first,
// each when the one after it is done, so that nobody is without what it stands on. A part that does not stop in its time
// is left behind, and said to be. The service manager, if there is one, is told all along.
func supervise(ctx context.Context, log zerolog.Logger, parts []part, told *manager) error {
	died := make(chan error, len(parts))
	started := make([]*running, 0, len(parts))
	for _, p := range parts {
		started = append(started, start(p, died))
	}
	told.started(parts)
	defer told.stopped()
	var err error
	select {
	case <-ctx.Done():
		log.Info().Str("why", context.Cause(ctx).Error()).Msg("stopping")
	case err = <-died:
		log.Error().Err(err).Msg("stopping")
	}
	told.stopping()
	for _, r := range slices.Backward(started) {
		told.ends(r.part)
		err = errors.Join(err, r.end())
	}
	log.Info().Msg("stopped")
	return err
}

type running struct {
	part
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of its end, when it was asked to; read after done
}

func start(p part, died chan<- error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{part: p, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		err := p.run(ctx)
		switch {
		case ctx.Err() != nil:
			r.err = err
		case err != nil:
			died <- fmt.Errorf("%s: %w", p.name, err)
		default:
			died <- fmt.Errorf("%s ended by itself", p.name)
		}
	}()
	return r
}

func (r *running) end() error {
	r.cancel()
	late := time.NewTimer(r.stop)
	defer late.Stop()
	select {
	case <-r.done:
		if r.err != nil {
			return fmt.Errorf("stop %s: %w", r.name, r.err)
		}
		return nil
	case <-late.C:
		return fmt.Errorf("stop %s: not done after %s", r.name, r.stop)
	}
}
