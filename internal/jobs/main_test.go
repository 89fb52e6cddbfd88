package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/subscriptions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// shop is a database with everything that jobs work with. Its clock stands still until the test moves it.
type shop struct {
	*testing.T
	db     *pgxpool.Pool
	ids    *id.Generator
	store  *subscriptions.Store
	desk   *dispatcher.Desk
	intake *intake.Intake
	jobs   *jobs.Jobs

	mu    sync.Mutex
	clock time.Time
	woke  []int16
	wake  func(int16) // a dispatcher, if there is one
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t, db: pgtest.Pool(t), clock: noon}
	s.ids = id.NewGenerator(1, s.now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	s.store = subscriptions.New(subscriptions.Deps{
		DB: s.db, IDs: s.ids, Now: s.now, Box: box, CheckURL: func(string) error { return nil },
	})
	s.desk = dispatcher.NewDesk(dispatcher.DeskDeps{DB: s.db, IDs: s.ids, Now: s.now, Wake: func(int16) {}})
	s.intake = intake.New(intake.Deps{DB: s.db, IDs: s.ids, Now: s.now})
	t.Cleanup(func() {
		if err := s.intake.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.jobs = s.another()
	return s
}

// another is a further process's jobs on the same database: three at a time, and a hundred a second.
func (s *shop) another() *jobs.Jobs {
	return jobs.New(jobs.Deps{
		DB: s.db, IDs: s.ids, Now: s.now, Desk: s.desk, Intake: s.intake, Log: zerolog.New(zerolog.NewTestWriter(s.T)),
		Batch: 3, Rate: 100, Wake: func(shard int16) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.woke = append(s.woke, shard)
			if s.wake != nil {
				s.wake(shard)
			}
		},
	})
}

func (s *shop) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *shop) pass(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(by)
}

func (s *shop) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.db.Exec(s.Context(), sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

func (s *shop) count(sql string, args ...any) (n int) {
	s.Helper()
	if err := s.db.QueryRow(s.Context(), sql, args...).Scan(&n); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (s *shop) tenant() subscriptions.Tenant {
	s.Helper()
	t, err := s.store.CreateTenant(s.Context(), subscriptions.NewTenant{Name: "acme"})
	if err != nil {
		s.Fatal(err)
	}
	return t
}

func (s *shop) endpoint(t subscriptions.Tenant, n subscriptions.NewEndpoint) id.ID {
	s.Helper()
	if n.URL == "" {
		n.URL = "https://receiver.test/hook"
	}
	e, _, err := s.store.CreateEndpoint(s.Context(), t, n)
	if err != nil {
		s.Fatal(err)
	}
	return e.ID
}

// events accepts so many events, a second apart, and gives their ids.
func (s *shop) events(t subscriptions.Tenant, eventType string, n int) (ids []id.ID) {
	s.Helper()
	for i := range n {
		s.pass(time.Second)
		got, _, err := s.intake.Accept(s.Context(), t.ID, "", []intake.Event{{
			Type: eventType, Payload: fmt.Appendf(nil, `{"n": %d}`, i),
		}})
		if err != nil {
			s.Fatal(err)
		}
		ids = append(ids, got[0].ID)
	}
	s.pass(time.Second)
	return ids
}

// finish has all that waits end in this way.
func (s *shop) finish(state string) {
	s.Helper()
	s.exec(`WITH gone AS (DELETE FROM deliveries RETURNING *)
		INSERT INTO deliveries_finished (shard, id, tenant_id, event_id, endpoint_id, state, attempts, reason, last_outcome,
			last_status, finished_at, group_id)
		SELECT shard, id, tenant_id, event_id, endpoint_id, $1::text::delivery_state, attempts + 1,
			CASE WHEN $1 <> 'succeeded' THEN 'exhausted' END,
			CASE WHEN $1 = 'succeeded' THEN 'succeeded' ELSE 'retryable' END::outcome, 503, $2, group_id FROM gone`, state, s.now())
}

func (s *shop) create(r jobs.Request) jobs.Job {
	s.Helper()
	j, err := s.jobs.Create(audit.With(s.Context(), audit.CLI("ada")), r)
	if err != nil {
		s.Fatal(err)
	}
	return j
}

func (s *shop) get(job id.ID) jobs.Job {
	s.Helper()
	j, err := s.jobs.Get(s.Context(), job)
	if err != nil {
		s.Fatal(err)
	}
	return j
}

// step has somebody take one step, and says whether there was one to take.
func (s *shop) step(by *jobs.Jobs) bool {
	s.Helper()
	did, err := by.RunOnce(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	return did
}

// work has a job done to its end, the clock moving on where the pace makes it wait.
func (s *shop) work(job id.ID) jobs.Job {
	s.Helper()
	for range 1000 {
		if j := s.get(job); j.State.Finished() {
			return j
		}
		if !s.step(s.jobs) {
			s.pass(100 * time.Millisecond)
		}
	}
	s.Fatalf("the job comes to no end: %+v", s.get(job))
	return jobs.Job{}
}

func wantFault(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("got %v, want %s", err, code)
	}
}
