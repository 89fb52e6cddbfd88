package alert_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/postrider/postrider/internal/alert"
)

func TestRunSendsWhatIsDueUntilItIsStopped(t *testing.T) {
	t.Parallel()
	w, log := newWorld(t, 1), &logged{}
	arrived := make(chan struct{}, 1)
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{} }))
	defer to.Close()
	w.raise(w.finding(0, alert.DeliveryFailed, "a"))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.sender(log, "generic+"+to.URL).Run(ctx) }()
	<-arrived
	for w.one(`SELECT count(sent_at)::text FROM alert_notices`) == "0" {
		runtime.Gosched()
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	expect(t, "logged", log.messages(t), "alert.opened")
}
