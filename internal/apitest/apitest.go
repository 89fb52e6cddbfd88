// Package apitest gives a test the HTTP API on a database of its own. Events are accepted and stored there; nothing sends them.
package apitest

import (
	"bytes"
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/pgtest"
	"github.com/postrider/postrider/internal/seal"
	"github.com/postrider/postrider/subscriptions"
)

// What every server has.
const (
	AdminKey   = "prk_the_admin_of_a_test_server" // an API key for everything
	Tenant     = "demo"                           // a tenant's uid
	maxPayload = 1 << 20
	patience   = time.Minute
)

// Server is an API that takes requests until its test is over.
type Server struct {
	URL string // http://127.0.0.1:…
	DB  *pgxpool.Pool
}

// Start starts one.
func Start(t testing.TB) *Server {
	t.Helper()
	db, clock := pgtest.Pool(t), &pg.Clock{}
	ids := id.NewGenerator(1, clock.Now)
	box, err := seal.New([][]byte{bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	policy := egress.Policy{}
	store := subscriptions.New(subscriptions.Deps{DB: db, IDs: ids, Now: clock.Now, Box: box, CheckURL: policy.CheckURL})
	uid := Tenant
	if _, err := store.CreateTenant(t.Context(), subscriptions.NewTenant{UID: &uid, Name: "Demo"}); err != nil {
		t.Fatal(err)
	}
	keys := auth.NewKeys(db, ids, clock.Now)
	if err := keys.EnsureBootstrap(t.Context(), AdminKey); err != nil {
		t.Fatal(err)
	}
	in := intake.New(intake.Deps{DB: db, IDs: ids, Now: clock.Now, MaxPayload: maxPayload, Types: store.Catalogue(), SearchBudget: time.Minute})
	server := httptest.NewServer(api.New(api.Deps{
		Subscriptions: store, Intake: in, Keys: keys, Audit: audit.NewLog(db), Ping: db.Ping, Logger: zerolog.Nop(), MaxPayload: maxPayload,
		Deliveries: dispatcher.NewDesk(dispatcher.DeskDeps{DB: db, IDs: ids, Now: clock.Now, SearchBudget: time.Minute, Wake: func(int16) {}}),
		Pull: dispatcher.NewPull(dispatcher.Config{Lease: time.Minute}, dispatcher.PullDeps{
			Deps:  dispatcher.Deps{DB: db, IDs: ids, Now: clock.Now, Store: store, Log: zerolog.Nop(), WallTime: time.Now},
			Marks: dispatcher.Marks{Marker: box},
		}),
		Alerts:   alert.NewDesk(db, ids.Next, clock.Now),
		Sessions: auth.NewSessions(db, ids, keys, clock.Now, auth.SessionOptions{}), PublicURL: "http://127.0.0.1:8080",
	}))
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := in.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := keys.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &Server{URL: server.URL, DB: db}
}

// Events counts the events that the server has.
func (s *Server) Events(t testing.TB) (n int) {
	t.Helper()
	if err := s.DB.QueryRow(t.Context(), `SELECT count(*) FROM postrider.events`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
