package schedules_test

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/subscriptions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// shop is a database with everything that schedules work with. Its clock stands still until the test moves it.
type shop struct {
	*testing.T
	db        *pgxpool.Pool
	ids       *id.Generator
	store     *subscriptions.Store
	intake    *intake.Intake
	schedules *schedules.Schedules
	log       *bytes.Buffer // of schedules, which only one goroutine writes to

	mu    sync.Mutex
	clock time.Time
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{T: t, db: pgtest.Pool(t), clock: noon, log: &bytes.Buffer{}}
	s.ids = id.NewGenerator(1, s.now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	s.store = subscriptions.New(subscriptions.Deps{
		DB: s.db, IDs: s.ids, Now: s.now, Box: box, CheckURL: func(string) error { return nil },
	})
	s.intake = intake.New(intake.Deps{DB: s.db, IDs: s.ids, Now: s.now, Types: s.store.Catalogue()})
	t.Cleanup(func() {
		if err := s.intake.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.schedules = s.another(zerolog.New(s.log))
	return s
}

// another is a further process's schedules on the same database.
func (s *shop) another(log zerolog.Logger) *schedules.Schedules {
	return schedules.New(schedules.Deps{DB: s.db, IDs: s.ids, Now: s.now, Intake: s.intake, Log: log})
}

func (s *shop) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *shop) set(to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = to
}

func (s *shop) pass(by time.Duration) { s.set(s.now().Add(by)) }

func (s *shop) exec(sql string, args ...any) {
	s.Helper()
	if _, err := s.db.Exec(s.Context(), sql, args...); err != nil {
		s.Fatalf("%s: %v", sql, err)
	}
}

func (s *shop) tenant() id.ID {
	s.Helper()
	t, err := s.store.CreateTenant(s.Context(), subscriptions.NewTenant{Name: "acme"})
	if err != nil {
		s.Fatal(err)
	}
	if _, _, err := s.store.CreateEndpoint(s.Context(), t, subscriptions.NewEndpoint{URL: "https://receiver.test/"}); err != nil {
		s.Fatal(err)
	}
	return t.ID
}

func terms(cron string) schedules.Terms {
	return schedules.Terms{Cron: cron, Type: "report.due", Payload: []byte(`{ "n":1.0 }`)}
}

func (s *shop) create(tenant id.ID, t schedules.Terms) schedules.Schedule {
	s.Helper()
	sch, err := s.schedules.Create(s.Context(), tenant, t)
	if err != nil {
		s.Fatal(err)
	}
	return sch
}

func (s *shop) get(sch schedules.Schedule) schedules.Schedule {
	s.Helper()
	got, err := s.schedules.Get(s.Context(), sch.Tenant, id.Schedule.Format(sch.ID))
	if err != nil {
		s.Fatal(err)
	}
	return got
}

// work has all that is due done, and gives what it came to.
func (s *shop) work() (all schedules.Done) {
	s.Helper()
	for range 10_000 {
		d, err := s.schedules.RunOnce(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if d.Schedules == 0 {
			return all
		}
		all.Schedules, all.Made = all.Schedules+d.Schedules, all.Made+d.Made
		all.Failed, all.Skipped = all.Failed+d.Failed, all.Skipped+d.Skipped
	}
	s.Fatal("what is due comes to no end")
	return all
}

// made gives the occurrences whose events are there, in the order of the events.
func (s *shop) made(sch schedules.Schedule) (at []string) {
	s.Helper()
	rows, err := s.db.Query(s.Context(), `SELECT metadata FROM events
		WHERE shard = $1 AND tenant_id = $2 AND metadata -> 'schedule' ->> 'id' = $3 ORDER BY id`,
		sch.Tenant.Shard, sch.Tenant.N, id.Schedule.Format(sch.ID))
	if err != nil {
		s.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		s.Fatal(err)
	}
	for _, text := range texts {
		var m struct {
			Schedule struct {
				At string `json:"at"`
			} `json:"schedule"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			s.Fatal(err)
		}
		at = append(at, m.Schedule.At)
	}
	return at
}

func wantFault(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("got %v, want %s", err, code)
	}
}
