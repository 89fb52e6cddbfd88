package pulse_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/pulse"
)

func TestOfFailuresInARowTheFirstIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		var rounds []time.Duration
		var told []string
		outcomes := []error{nil, errors.New("a"), errors.New("b"), nil, errors.New("c"), errors.New("of the stop")}
		pulse.Again(ctx, time.Second, func(context.Context) error {
			rounds = append(rounds, time.Since(begun))
			n := len(rounds)
			if n == len(outcomes) {
				cancel()
			}
			return outcomes[n-1]
		}, func(err error) { told = append(told, err.Error()) })
		if want := []time.Duration{0, 1e9, 2e9, 3e9, 4e9, 5e9}; !slices.Equal(rounds, want) {
			t.Errorf("rounds at %v, want %v", rounds, want)
		}
		if want := []string{"a", "c"}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
	t.Run("what fails because of the stop is not told", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		pulse.Again(ctx, time.Hour, func(context.Context) error { cancel(); return ctx.Err() }, func(err error) { t.Errorf("told %v", err) })
	})
}
