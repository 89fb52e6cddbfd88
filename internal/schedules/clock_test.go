package schedules_test

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/schedules"
)

// The clock of a database steps back when it is set, or when a standby whose clock is behind takes over.
func TestAClockThatStepsBackRepeatsNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	sch, other := s.create(tenant, terms("5 * * * *")), s.create(tenant, terms("6 * * * *"))
	s.set(noon.Add(5*time.Minute + time.Second))
	s.work()
	s.set(noon.Add(4 * time.Minute))
	for _, paused := range []bool{true, false} {
		if _, err := s.schedules.Update(s.Context(), tenant, id.Schedule.Format(sch.ID), func(t *schedules.Terms) { t.Paused = paused }); err != nil {
			t.Fatal(err)
		}
	}
	s.set(noon.Add(time.Hour + 7*time.Minute))
	s.work()
	if got, want := s.made(sch), []string{"2026-11-30T12:05:00.000Z", "2026-11-30T13:05:00.000Z"}; !slices.Equal(got, want) {
		t.Errorf("it made %v, want %v", got, want)
	}
	if got, want := s.made(other), []string{"2026-11-30T12:06:00.000Z", "2026-11-30T13:06:00.000Z"}; !slices.Equal(got, want) {
		t.Errorf("the other made %v, want %v", got, want)
	}
}

// Whatever brings a schedule back to an occurrence that is written down: it makes no second event, and goes on.
func TestAnOccurrenceThatIsThereAlreadyHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	tenant := s.tenant()
	sch, other := s.create(tenant, terms("5 * * * *")), s.create(tenant, terms("5 * * * *"))
	s.set(noon.Add(5 * time.Minute))
	s.work()
	s.exec(`UPDATE schedules SET next_at = $1 WHERE id = $2`, s.now(), sch.ID.N)
	for range 2 {
		s.pass(time.Hour)
		s.work()
	}
	// What is due together with the one that is there already fails with it.
	if got, want := s.made(sch), []string{"2026-11-30T12:05:00.000Z", "2026-11-30T14:05:00.000Z"}; !slices.Equal(got, want) {
		t.Errorf("it made %v, want %v", got, want)
	}
	if got := s.made(other); len(got) != 3 {
		t.Errorf("the other made %v", got)
	}
}
