package main

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/clienttls"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/internal/watch"
	"github.com/postrider/postrider/subscriptions"
)

// newWatch makes what watches whether deliveries are made. It knows the loops of this process as they are added.
func (w *wiring) newWatch() *watch.Watch {
	w.loops = map[string]func() watch.Loop{}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	b := watch.Bounds{
		MaxDueAge: w.cfg.Watch.MaxDueAge, MinDispatchers: w.cfg.Watch.MinDispatchers, DeadAfter: w.cfg.Watch.DeadAfter,
	}
	if w.cfg.Canary.Enabled {
		b.CanaryEvery = w.cfg.Canary.Every
	}
	return watch.New(watch.Deps{
		DB: w.db.pool, Now: w.db.clock.Now, Log: w.log, Bounds: b, Node: w.db.node, Alerts: w.alerts, Desk: w.desk, Metrics: w.metrics,
		Self: pg.About{
			Roles: strings.Split(w.roles.String(), ","), Version: buildVersion(), Host: host, PID: os.Getpid(), StartedAt: w.db.clock.Now(),
		},
		Loops: w.loops,
	})
}

// addWatch has the process say that it lives, and look after all of them. It starts before what it watches over, and stops after it.
func (w *wiring) addWatch() {
	w.add(part{name: "the sign of life", stop: settle, run: w.watch.Say}, part{name: "the watch", stop: settle, run: w.watch.Run})
}

// addCanary adds who sends canaries, if there are any; their receiver is among the pages. It may be where no other endpoint is to be, so
// its URL is judged by nothing but its form.
func (w *wiring) addCanary() {
	if !w.cfg.Canary.Enabled {
		return
	}
	own := subscriptions.New(subscriptions.Deps{
		DB: w.db.pool, IDs: w.db.ids, Now: w.db.clock.Now, Box: w.box, CheckURL: canaryPolicy().CheckURL, MaxTimeout: w.cfg.Delivery.MaxTimeout(),
		Changed: w.forget,
	})
	base := w.cfg.Canary.URL
	if base == "" {
		base = publicURL(w.cfg.HTTP, w.addr)
	}
	w.add(part{name: "the canary", stop: settle, run: watch.NewSender(w.watch, w.intake, own, base).Run})
}

// canaryPolicy lets everything through: for the one URL that the configuration names, and none besides.
func canaryPolicy() *egress.Policy {
	ports, err := egress.ParsePorts("1-65535")
	if err != nil {
		panic("ports: " + err.Error()) // a mistake in the line above
	}
	return &egress.Policy{
		AllowHTTP: true, AllowPorts: ports, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
	}
}

// withCanary has the canary sent to wherever the configuration says its receiver is, also inside; all else goes through the client as
// ever. Nobody who has an endpoint can use the exception: it is for one URL, with a token that no call and no page gives out, and that
// URL leads to Postrider's own receiver.
func (w *wiring) withCanary(usual *egress.Client) sender {
	if !w.cfg.Canary.Enabled {
		return usual
	}
	c := egress.Config{Policy: *canaryPolicy(), ConnectTimeout: w.cfg.Delivery.ConnectTimeout, ProxyURL: w.cfg.Delivery.ProxyURL}
	direct := c
	direct.ProxyURL = nil // to this machine no proxy leads
	return &canaryDoer{usual: usual, own: egress.New(c), direct: egress.New(direct), is: w.watch.IsCanary}
}

// sender is what a dispatcher sends through.
type sender interface {
	dispatcher.Doer
	CloseIdleConnections()
}

type canaryDoer struct {
	usual, own, direct *egress.Client
	is                 func(ctx context.Context, url string) bool
}

// DoAs sends a request, as the client does.
func (d *canaryDoer) DoAs(r *http.Request, as *clienttls.Identity) (*http.Response, error) {
	through := d.usual
	if strings.HasPrefix(r.URL.Path, watch.CanaryPath) && d.is(r.Context(), r.URL.String()) {
		through = d.own
		if onThisMachine(r.URL) {
			through = d.direct
		}
	}
	return through.DoAs(r, as) //nolint:wrapcheck // it is the client's answer
}

// CloseIdleConnections closes the connections no request is using.
func (d *canaryDoer) CloseIdleConnections() {
	d.usual.CloseIdleConnections()
	d.own.CloseIdleConnections()
	d.direct.CloseIdleConnections()
}

func onThisMachine(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
}
