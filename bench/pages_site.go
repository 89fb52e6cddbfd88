package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"

	"github.com/rs/zerolog"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/console"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/jobs"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/portal"
	"github.com/postrider/postrider/internal/stats"
	"github.com/postrider/postrider/subscriptions"
)

// site is the console and the portal as `serve` wires them.
type site struct {
	console, portal http.Handler
	sessions        *auth.Sessions
	jobs            *jobs.Jobs
}

func (w *world) newSite() site {
	keys := auth.NewKeys(w.db, w.ids, w.clock.Now)
	searches := pg.NewSearches(int(w.db.Config().MaxConns))
	wake := func(int16) {}
	desk := dispatcher.NewDesk(dispatcher.DeskDeps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Wake: wake, Store: w.store, Searches: searches})
	events := intake.New(intake.Deps{
		DB: w.db, IDs: w.ids, Now: w.clock.Now, Wake: func([]dispatcher.NewDelivery) {}, Searches: searches, Types: w.store.Catalogue(),
	})
	s := site{
		sessions: auth.NewSessions(w.db, w.ids, keys, w.clock.Now, auth.SessionOptions{}),
		jobs:     jobs.New(jobs.Deps{DB: w.db, IDs: w.ids, Now: w.clock.Now, Desk: desk, Intake: events, Wake: wake, Log: zerolog.Nop()}),
	}
	s.console = console.New(console.Deps{
		Subscriptions: w.store, Intake: events, Deliveries: desk, Alerts: alert.NewDesk(w.db, w.ids.Next, w.clock.Now), Keys: keys,
		Door: auth.NewDoor(keys, auth.DoorOptions{}), Sessions: s.sessions, Audit: audit.NewLog(w.db), Jobs: s.jobs,
		Stats: stats.NewReader(w.db, w.clock.Now), Wake: wake, Now: w.clock.Now, Logger: zerolog.Nop(),
		PortalURL: func(string) string { return "" }, Schedule: dispatcher.DefaultSchedule, UserAgent: "Postrider/bench", Version: "bench",
	})
	s.portal = portal.New(portal.Deps{
		Subscriptions: w.store, Intake: events, Deliveries: desk, Door: auth.NewDoor(keys, auth.DoorOptions{}), Sessions: s.sessions,
		Jobs: s.jobs, Stats: stats.NewReader(w.db, w.clock.Now), Wake: wake, AddressClass: egress.Class,
		Now: w.clock.Now, Logger: zerolog.Nop(), Schedule: dispatcher.DefaultSchedule, Look: portal.Look{Name: "Webhooks"},
	})
	return s
}

// admin signs in to the console with the operator's key, as a browser does.
func (s site) admin(ctx context.Context, key string) (visitor, error) {
	return enter(ctx, s.console, console.Base+"/signin", url.Values{"key": {key}})
}

// tenant enters the tenant's portal by a link.
func (s site) tenant(ctx context.Context, t subscriptions.Tenant) (visitor, error) {
	token, _, err := s.sessions.CreatePortalLink(ctx, t.ID, auth.PortalLinkOptions{By: auth.Principal{As: audit.ByCLI, Name: "bench"}})
	if err != nil {
		return visitor{}, err
	}
	return enter(ctx, s.portal, portal.Base+"/enter", url.Values{"token": {token}})
}

func enter(ctx context.Context, h http.Handler, path string, form url.Values) (visitor, error) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	var cookies []string
	for _, c := range answer.Result().Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	if answer.Code != http.StatusSeeOther || len(cookies) == 0 {
		return visitor{}, fmt.Errorf("POST %s: %d %s", path, answer.Code, answer.Body)
	}
	return visitor{h, "Cookie", strings.Join(cookies, "; "), readHTML}, nil
}

var older = regexp.MustCompile(`rel="next" href="([^"]+)"`)

// readHTML counts the rows of a page's tables, and finds where "Older" leads.
func readHTML(_ string, answer []byte) (next string, seen int, err error) {
	if !bytes.Contains(answer, []byte("</html>")) {
		return "", 0, errors.New("the page has no end")
	}
	if m := older.FindSubmatch(answer); m != nil {
		next = html.UnescapeString(string(m[1]))
	}
	return next, bytes.Count(answer, []byte("<tr")) - bytes.Count(answer, []byte("<thead")), nil
}
