package pg_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/pg"
)

// A count that takes long, or that fails for taking too long, is not begun again before it has been paid for.
func TestCountingRestsInProportion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := pg.Resting[int]{Factor: 50}
		counts, slow := 0, errors.New("too slow")
		read := func(takes time.Duration, fails error, want, wantCounts int, wantErr error) {
			t.Helper()
			got, err := r.Read(func() (int, error) {
				counts++
				<-time.After(takes)
				return counts, fails
			})
			if got != want || counts != wantCounts || !errors.Is(err, wantErr) {
				t.Errorf("got %d, %v after %d counts; want %d after %d", got, err, counts, want, wantCounts)
			}
		}
		read(time.Millisecond, nil, 1, 1, nil)
		read(time.Second, nil, 2, 2, nil) // a cheap one does not rest
		<-time.After(50*time.Second - 1)
		read(time.Second, nil, 2, 2, nil)
		<-time.After(1)
		read(30*time.Second, slow, 2, 3, slow)
		<-time.After(25*time.Minute - 1)
		read(time.Second, nil, 2, 3, nil) // the old figure, and no error again
		<-time.After(1)
		read(time.Second, nil, 4, 4, nil)
	})
}
