package auth_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/audit"
	"github.com/postrider/postrider/internal/auth"
	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

func (b *bench) link(t *testing.T, tenant id.ID, o auth.PortalLinkOptions) string {
	t.Helper()
	token, _, err := b.sessions().CreatePortalLink(t.Context(), tenant, o)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAPortalIsEnteredOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, ten := b.sessions(), b.tenant(t)
	for readOnly, may := range map[bool][]auth.Scope{
		false: {auth.EndpointsWrite, auth.DeliveriesRead, auth.DeliveriesWrite, auth.EventsWrite},
		true:  {auth.DeliveriesRead},
	} {
		link := b.link(t, ten, auth.PortalLinkOptions{ReadOnly: readOnly})
		for range 2 { // looking spends nothing
			if at, err := s.PeekPortalLink(t.Context(), link); err != nil || at != ten {
				t.Errorf("it leads to %v, %v", at, err)
			}
		}
		token, of, err := s.EnterPortal(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Resume(t.Context(), auth.PortalSession, token)
		if err != nil {
			t.Error(err)
		}
		for _, in := range []auth.Session{of, again} {
			p := in.Principal
			if !in.Portal || in.ReadOnly != readOnly || in.Method != auth.MethodPortal || in.Role != "" || in.ID.Shard != ten.Shard ||
				p.As != audit.ByPortal || p.Name != "Acme" || p.Tenant == nil || *p.Tenant != ten || p.MaySee(b.tenant(t)) ||
				!slices.Equal(p.Scopes, may) || !in.ExpiresAt.Equal(b.now().Add(time.Hour)) {
				t.Errorf("%+v", in)
			}
		}
		_, err = s.Resume(t.Context(), auth.ConsoleSession, token)
		wantCode(t, err, fault.Unauthenticated)
		_, _, err = s.EnterPortal(t.Context(), link)
		wantCode(t, err, fault.Unauthenticated)
		_, err = s.PeekPortalLink(t.Context(), link)
		wantCode(t, err, fault.Unauthenticated)
	}
}

// A session of a portal does not outlast the key that it hangs on, and says so.
func TestAPortalSessionEndsWithItsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, end := b.sessions(), b.now().Add(20*time.Minute)
	_, text := b.create(t, auth.NewKey{Name: "shop", Scopes: []auth.Scope{auth.EndpointsWrite}, ExpiresAt: &end})
	p, err := b.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	token, in, err := s.EnterPortal(t.Context(), b.link(t, b.tenant(t), auth.PortalLinkOptions{By: p}))
	if err != nil || !in.ExpiresAt.Equal(end) {
		t.Errorf("it ends at %s, %v", in.ExpiresAt, err)
	}
	b.pass(20*time.Minute - time.Second)
	if _, err := s.Resume(t.Context(), auth.PortalSession, token); err != nil {
		t.Error(err)
	}
	b.pass(time.Second)
	_, err = s.Resume(t.Context(), auth.PortalSession, token)
	wantCode(t, err, fault.Unauthenticated)
}

// Of many who come with one link at the same moment, one enters.
func TestManyEnterWithOneLink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := b.link(t, b.tenant(t), auth.PortalLinkOptions{})
	errs := make(chan error)
	const many = 8
	for range many {
		go func() {
			_, _, err := b.sessions().EnterPortal(t.Context(), link)
			errs <- err
		}()
	}
	entered := 0
	for range many {
		if err := <-errs; err == nil {
			entered++
		} else {
			wantCode(t, err, fault.Unauthenticated)
		}
	}
	var sessions int
	if err := b.db.QueryRow(t.Context(), `SELECT count(*) FROM sessions`).Scan(&sessions); err != nil || entered != 1 || sessions != 1 {
		t.Errorf("%d entered, %d sessions, %v", entered, sessions, err)
	}
}

// A link and the session that it opened end with time, with the key that made the link and with the tenant.
func TestWhatALinkHangsOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end     func(t *testing.T, b *bench, key auth.Key, ten id.ID)
		link    bool // still good
		session bool
	}{
		"nothing":        {func(*testing.T, *bench, auth.Key, id.ID) {}, true, true},
		"link's end":     {func(_ *testing.T, b *bench, _ auth.Key, _ id.ID) { b.pass(5 * time.Minute) }, false, true},
		"before its end": {func(_ *testing.T, b *bench, _ auth.Key, _ id.ID) { b.pass(5*time.Minute - time.Second) }, true, true},
		"session's end":  {func(_ *testing.T, b *bench, _ auth.Key, _ id.ID) { b.pass(time.Hour) }, false, false},
		"key revoked": {func(t *testing.T, b *bench, key auth.Key, _ id.ID) {
			t.Helper()
			if err := b.Revoke(t.Context(), key.ID); err != nil {
				t.Fatal(err)
			}
		}, false, false},
		"tenant deleted": {func(t *testing.T, b *bench, _ auth.Key, ten id.ID) {
			t.Helper()
			if _, err := b.db.Exec(t.Context(), `UPDATE tenants SET deleted_at = $2 WHERE id = $1`, ten.N, b.now()); err != nil {
				t.Fatal(err)
			}
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s, ten := b.sessions(), b.tenant(t)
			key, text := b.create(t, auth.NewKey{Name: "shop", Scopes: []auth.Scope{auth.EndpointsWrite}})
			p, err := b.Authenticate(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			token, _, err := s.EnterPortal(t.Context(), b.link(t, ten, auth.PortalLinkOptions{By: p}))
			if err != nil {
				t.Fatal(err)
			}
			link := b.link(t, ten, auth.PortalLinkOptions{By: p})
			c.end(t, b, key, ten)
			_, peek := s.PeekPortalLink(t.Context(), link)
			_, _, enter := s.EnterPortal(t.Context(), link)
			for _, err := range []error{peek, enter} {
				if c.link != (err == nil) || err != nil && !fault.Is(err, fault.Unauthenticated) {
					t.Errorf("the link: %v", err)
				}
			}
			if _, err = s.Resume(t.Context(), auth.PortalSession, token); c.session != (err == nil) {
				t.Errorf("the session: %v", err)
			}
		})
	}
}

func TestWhoMayMakeALink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, ten, other := b.sessions(), b.tenant(t), b.tenant(t)
	bound := auth.Principal{As: audit.ByKey, Tenant: &other}
	_, _, err := s.CreatePortalLink(t.Context(), ten, auth.PortalLinkOptions{By: bound})
	wantCode(t, err, fault.NotFound)
	_, _, err = s.CreatePortalLink(t.Context(), id.ID{Shard: ten.Shard, N: 1}, auth.PortalLinkOptions{})
	wantCode(t, err, fault.NotFound)
	for in, ok := range map[time.Duration]bool{
		-time.Minute: false, time.Second: false, time.Minute: true, time.Hour: true, time.Hour + time.Second: false,
	} {
		_, until, err := s.CreatePortalLink(t.Context(), ten, auth.PortalLinkOptions{ExpiresIn: in})
		if ok != (err == nil) || !ok && !fault.Is(err, fault.Invalid) || ok && !until.Equal(b.now().Add(in)) {
			t.Errorf("%s: until %s, %v", in, until, err)
		}
	}
}

func TestEndedOnesAreDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, ten := b.sessions(), b.tenant(t)
	b.signedIn(t, auth.NewKey{Name: "n", Scopes: auth.Scopes()})
	b.link(t, ten, auth.PortalLinkOptions{})
	if _, _, err := s.EnterPortal(t.Context(), b.link(t, ten, auth.PortalLinkOptions{})); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {5 * time.Minute, 1}, {55 * time.Minute, 1}, {11*time.Hour - time.Second, 0}, {time.Second, 1}, {0, 0}} {
		b.pass(step.after)
		if n, err := s.DropEnded(t.Context()); err != nil || n != step.want {
			t.Errorf("at %s: %d dropped, want %d; %v", b.now(), n, step.want, err)
		}
	}
}

// Guessing at links is limited as guessing at keys is, and by the same count.
func TestGuessedLinksCount(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	from, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var heard []auth.Failure
	var held []netip.Addr
	d := auth.NewDoor(b.Keys, auth.DoorOptions{
		Burst: 3, Tell: func(f auth.Failure) { heard = append(heard, f) }, Warn: func(a netip.Addr) { held = append(held, a) },
	})
	ours, mine := errors.New("ours"), errors.New("not tried")
	bad := func() error { _, err := b.sessions().PeekPortalLink(t.Context(), "prl_guess"); return err }
	for _, try := range []struct {
		do   func() error
		want fault.Code
	}{
		{bad, fault.Unauthenticated},
		{func() error { return ours }, fault.Internal},
		{func() error { return nil }, ""},
		{bad, fault.Unauthenticated},
		{bad, fault.Unauthenticated},
		{func() error { return mine }, fault.TooMany},
	} {
		err := d.Try(from, try.do)
		if try.want == "" && err != nil || try.want != "" && fault.CodeOf(err) != try.want {
			t.Errorf("%v, want %s", err, try.want)
		}
	}
	_, err := d.Enter(t.Context(), "prk_guess", from)
	wantCode(t, err, fault.TooMany)
	if err := d.Try(other, func() error { return nil }); err != nil {
		t.Errorf("another address: %v", err)
	}
	want := []auth.Failure{auth.UnknownKey, auth.UnknownKey, auth.UnknownKey, auth.TooMany, auth.TooMany}
	if !slices.Equal(heard, want) || !slices.Equal(held, []netip.Addr{from}) {
		t.Errorf("heard %v, held up %v", heard, held)
	}
}
