package auth_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

var someone = netip.MustParseAddr("192.0.2.7")

func (b *bench) sessions() *auth.Sessions {
	return auth.NewSessions(b.db, b.ids, b.Keys, b.now, auth.SessionOptions{})
}

// signedIn is a session of a fresh key with the scopes.
func (b *bench) signedIn(t *testing.T, n auth.NewKey) (key auth.Key, token string, of auth.Session) {
	t.Helper()
	key, text := b.create(t, n)
	p, err := b.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	token, of, err = b.sessions().SignIn(auth.WithClient(t.Context(), someone), p)
	if err != nil {
		t.Fatal(err)
	}
	return key, token, of
}

func TestRolesOfKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ten := b.tenant(t)
	read, write, ends, events := auth.DeliveriesRead, auth.DeliveriesWrite, auth.EndpointsWrite, auth.EventsWrite
	for _, c := range []struct {
		scopes []auth.Scope
		tenant *id.ID
		role   auth.Role // "": refused
		may    []auth.Scope
	}{
		{[]auth.Scope{auth.Admin}, nil, auth.RoleAdmin, []auth.Scope{auth.Admin}},
		{[]auth.Scope{auth.Admin}, &ten, "", nil},
		{auth.Scopes(), nil, auth.RoleAdmin, []auth.Scope{auth.Admin}},
		{[]auth.Scope{read, write, ends, events}, nil, auth.RoleSupport, []auth.Scope{read, write, ends, events}},
		{[]auth.Scope{read, write, ends}, nil, auth.RoleSupport, []auth.Scope{read, write, ends}}, // no more than the key
		{[]auth.Scope{read, write}, nil, auth.RoleViewer, []auth.Scope{read}},
		{[]auth.Scope{read, ends, events}, nil, auth.RoleViewer, []auth.Scope{read}},
		{[]auth.Scope{read}, nil, auth.RoleViewer, []auth.Scope{read}},
		{[]auth.Scope{read}, &ten, "", nil},
		{[]auth.Scope{write, ends, events}, nil, "", nil},
		{[]auth.Scope{events}, nil, "", nil},
	} {
		key, text := b.create(t, auth.NewKey{Name: "n", Scopes: c.scopes, Tenant: c.tenant})
		p, err := b.Authenticate(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		token, of, err := b.sessions().SignIn(t.Context(), p)
		if c.role == "" {
			wantCode(t, err, fault.Forbidden)
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.scopes, err)
			continue
		}
		again, err := b.sessions().Resume(t.Context(), auth.ConsoleSession, token)
		if err != nil {
			t.Errorf("%v: %v", c.scopes, err)
		}
		for _, s := range []auth.Session{of, again} {
			if s.Role != c.role || !slices.Equal(s.Principal.Scopes, c.may) || s.Principal.Key != key.ID || s.Method != auth.MethodKey ||
				s.Portal || !s.Principal.SeesAll() || s.ID != of.ID || !s.ExpiresAt.Equal(b.now().Add(12*time.Hour)) {
				t.Errorf("%v: %+v, want the role %s and %v", c.scopes, s, c.role, c.may)
			}
		}
	}
}

func TestRolesInOrder(t *testing.T) {
	t.Parallel()
	for i, r := range auth.Roles() {
		for j, other := range auth.Roles() {
			if r.AtLeast(other) != (i >= j) {
				t.Errorf("%s at least %s: %t", r, other, r.AtLeast(other))
			}
		}
	}
	if auth.Role("").AtLeast(auth.RoleViewer) || auth.Role("root").AtLeast(auth.RoleViewer) || auth.Role("root").Scopes() != nil {
		t.Error("what is no role may something")
	}
}

// Everything that ends a session ends it at once.
func TestHowSessionsEnd(t *testing.T) {
	t.Parallel()
	soon := time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC) // an hour after the bench begins
	for name, c := range map[string]struct {
		key    auth.NewKey
		do     func(t *testing.T, b *bench, key auth.Key, token string)
		stands bool
	}{
		"used": {do: func(t *testing.T, b *bench, _ auth.Key, token string) {
			t.Helper()
			for range 5 { // ten hours, each request within the idle time of the one before
				b.pass(119 * time.Minute)
				if _, err := b.sessions().Resume(t.Context(), auth.ConsoleSession, token); err != nil {
					t.Fatal(err)
				}
			}
			b.pass(2*time.Hour - time.Minute)
		}, stands: true},
		"too old": {do: func(t *testing.T, b *bench, _ auth.Key, token string) {
			t.Helper()
			for range 12 {
				if _, err := b.sessions().Resume(t.Context(), auth.ConsoleSession, token); err != nil {
					t.Fatal(err)
				}
				b.pass(time.Hour)
			}
		}},
		"only watched": {do: func(t *testing.T, b *bench, _ auth.Key, token string) {
			t.Helper()
			for range 2 { // a page that was left open and looks again by itself
				if _, err := b.sessions().Watch(t.Context(), auth.ConsoleSession, token); err != nil {
					t.Fatal(err)
				}
				b.pass(time.Hour)
			}
		}},
		"idle":      {do: func(_ *testing.T, b *bench, _ auth.Key, _ string) { b.pass(2 * time.Hour) }},
		"not idle":  {do: func(_ *testing.T, b *bench, _ auth.Key, _ string) { b.pass(2*time.Hour - time.Second) }, stands: true},
		"key over":  {key: auth.NewKey{ExpiresAt: &soon}, do: func(_ *testing.T, b *bench, _ auth.Key, _ string) { b.pass(time.Hour) }},
		"key going": {key: auth.NewKey{ExpiresAt: &soon}, do: func(_ *testing.T, b *bench, _ auth.Key, _ string) { b.pass(time.Hour - time.Second) }, stands: true},
		"key revoked": {do: func(t *testing.T, b *bench, key auth.Key, _ string) {
			t.Helper()
			if err := b.Revoke(t.Context(), key.ID); err != nil {
				t.Fatal(err)
			}
		}},
		"signed out": {do: func(t *testing.T, b *bench, _ auth.Key, token string) {
			t.Helper()
			for range 2 { // the second time there is nothing left to do
				if err := b.sessions().End(t.Context(), token); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"dropped too soon": {do: func(t *testing.T, b *bench, _ auth.Key, _ string) {
			t.Helper()
			if n, err := b.sessions().DropEnded(t.Context()); err != nil || n != 0 {
				t.Fatal(n, err)
			}
		}, stands: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c.key.Name, c.key.Scopes = "n", auth.Scopes()
			key, token, of := b.signedIn(t, c.key)
			if c.key.ExpiresAt != nil && !of.ExpiresAt.Equal(*c.key.ExpiresAt) {
				t.Errorf("it outlives its key: until %s", of.ExpiresAt)
			}
			c.do(t, b, key, token)
			_, err := b.sessions().Resume(t.Context(), auth.ConsoleSession, token)
			if c.stands && err != nil {
				t.Error(err)
			}
			if !c.stands {
				wantCode(t, err, fault.Unauthenticated)
			}
		})
	}
}

func TestOnlyTokensOfTheKindResume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.sessions()
	_, token, _ := b.signedIn(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	for _, bad := range []string{
		"", "prs_", token[:len(token)-1], token + "A", "prl_" + token[4:], token[4:], strings.ToUpper(token), "prs_" + strings.Repeat("A", 43),
		"prs_" + strings.Repeat("\x00", 43),
	} {
		_, err := s.Resume(t.Context(), auth.ConsoleSession, bad)
		wantCode(t, err, fault.Unauthenticated)
		if err := s.End(t.Context(), bad); err != nil {
			t.Errorf("ending %q: %v", bad, err)
		}
	}
	_, err := s.Resume(t.Context(), auth.PortalSession, token)
	wantCode(t, err, fault.Unauthenticated)
	if _, err := s.Resume(t.Context(), auth.ConsoleSession, token); err != nil {
		t.Error(err)
	}
}

// A process that remembers a key for a second more makes no session of it.
func TestARevokedKeySignsNobodyIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	there := onPool(t, b.db)
	key, text := b.create(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	p, err := there.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = there.sessions().SignIn(t.Context(), p)
	wantCode(t, err, fault.Unauthenticated)
	_, _, err = b.sessions().SignIn(t.Context(), auth.Principal{As: audit.ByPortal, Scopes: auth.Scopes()})
	wantCode(t, err, fault.Forbidden)
}

func TestAUserSignsIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.sessions()
	token, of, err := s.SignInUser(t.Context(), "https://id.example", "u-1", "Ada\x00\xff"+strings.Repeat("é", 300), auth.RoleSupport)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Resume(t.Context(), auth.ConsoleSession, token)
	if err != nil || again.Principal.Name != of.Principal.Name || !strings.HasPrefix(of.Principal.Name, "Ada\uFFFD\uFFFDé") ||
		again.Principal.As != audit.ByUser || !again.Principal.Key.IsZero() || again.Role != auth.RoleSupport ||
		!slices.Equal(again.Principal.Scopes, auth.RoleSupport.Scopes()) || again.Method != auth.MethodOIDC {
		t.Errorf("%+v, %v", again, err)
	}
	_, of, err = s.SignInUser(t.Context(), "https://id.example", "u-2", "", auth.RoleViewer)
	if err != nil || of.Principal.Name != "u-2" {
		t.Errorf("without a name it is %q, %v", of.Principal.Name, err)
	}
	_, _, err = s.SignInUser(t.Context(), "https://id.example", "u-3", "x", "root")
	wantCode(t, err, fault.Forbidden)
	_, _, err = s.SignInUser(t.Context(), "https://id.example", "", "x", auth.RoleAdmin)
	wantCode(t, err, fault.Unauthenticated)
}

// What people do with their sessions is in the audit log, as theirs, without a token.
func TestSessionsInTheAuditLog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, ctx := b.sessions(), auth.WithClient(t.Context(), someone)
	ten := b.tenant(t)
	key, token, of := b.signedIn(t, auth.NewKey{Name: "desk", Scopes: auth.Scopes()})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.End(ctx, token))
	user, ofUser, err := s.SignInUser(ctx, "https://id.example", "u-1", "Ada", auth.RoleAdmin)
	must(err)
	link, _, err := s.CreatePortalLink(audit.With(ctx, auth.ActorOf(ctx, ofUser.Principal)), ten, auth.PortalLinkOptions{By: ofUser.Principal, ReadOnly: true})
	must(err)
	in, inside, err := s.EnterPortal(ctx, link)
	must(err)
	must(s.End(ctx, in))

	byKey := audit.Actor{Kind: audit.ByKey, Key: key.ID, Name: "desk", From: someone}
	byUser := audit.Actor{Kind: audit.ByUser, Name: "Ada", From: someone}
	byPortal := audit.Actor{Kind: audit.ByPortal, Name: "Acme", From: someone}
	console, onTenant := audit.Thing{Kind: id.Session, ID: of.ID}, audit.Thing{Kind: id.Tenant, ID: ten}
	ofUsers, portal := audit.Thing{Kind: id.Session, ID: ofUser.ID}, audit.Thing{Kind: id.Session, ID: inside.ID}
	want := []audit.Record{
		{Actor: audit.System("postrider"), Action: audit.KeyCreated, Object: audit.Thing{Kind: id.Key, ID: key.ID}},
		{Actor: byKey, Action: audit.SessionStarted, Object: console},
		{Actor: byKey, Action: audit.SessionEnded, Object: console},
		{Actor: byUser, Action: audit.SessionStarted, Object: ofUsers},
		{Actor: byUser, Action: audit.PortalLinkCreated, Object: onTenant, Tenant: &ten},
		{Actor: byPortal, Action: audit.PortalEntered, Object: portal, Tenant: &ten},
		{Actor: byPortal, Action: audit.SessionEnded, Object: portal, Tenant: &ten},
	}
	got, err := audit.NewLog(b.db).List(t.Context(), audit.Filter{}, 20, id.ID{})
	must(err)
	slices.Reverse(got)
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Actor != w.Actor || g.Action != w.Action || g.Object != w.Object || (g.Tenant == nil) != (w.Tenant == nil) ||
			w.Tenant != nil && *g.Tenant != *w.Tenant {
			t.Errorf("entry %d is %+v, want %+v", i, g, w)
		}
		for _, secret := range []string{token, user, link, in} {
			if strings.Contains(string(g.Details), secret[4:]) {
				t.Errorf("%s tells a token: %s", g.Action, g.Details)
			}
		}
	}
}

func TestTokensAreNotStored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, token, _ := b.signedIn(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	link, _, err := b.sessions().CreatePortalLink(t.Context(), b.tenant(t), auth.PortalLinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all string
	if err := b.db.QueryRow(t.Context(), `
SELECT (SELECT string_agg(s::text, ' ') FROM sessions s) || (SELECT string_agg(l::text, ' ') FROM portal_links l)
    || (SELECT string_agg(a::text, ' ') FROM audit_log a)`).Scan(&all); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{token, link} {
		if len(secret) != 47 || strings.Contains(all, secret[4:]) {
			t.Errorf("%s is in %s", secret, all)
		}
	}
}

func TestClientOf(t *testing.T) {
	t.Parallel()
	if from := auth.ClientOf(auth.WithClient(context.Background(), someone)); from != someone {
		t.Errorf("it is %s", from)
	}
	if from := auth.ClientOf(context.Background()); from.IsValid() {
		t.Errorf("nobody's is %s", from)
	}
}
