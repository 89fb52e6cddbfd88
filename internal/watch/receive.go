package watch

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/signer"
	"github.com/postrider/postrider/subscriptions"
)

// knownCanary is the canary's URL as it was read last. It hardly ever changes.
type knownCanary struct {
	url     string
	askedAt time.Time
}

// reread is how soon the row is read again for a URL that is not the one that is known, whoever comes with it.
const reread = time.Second

// known says whether a part of the canary's URL is this one; the URL is read anew if it is not.
func (w *Watch) known(ctx context.Context, part func(url string) string, given string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	fits := func() bool {
		return w.canary.url != "" && subtle.ConstantTimeCompare([]byte(part(w.canary.url)), []byte(given)) == 1
	}
	if fits() || time.Since(w.canary.askedAt) < reread {
		return fits()
	}
	w.canary.askedAt = time.Now()
	if row, err := w.readCanary(ctx); err == nil && row.URL != nil {
		w.canary.url = *row.URL
	}
	return fits()
}

// IsCanary says whether a URL is the canary's, to the last byte of its token. Only for that one may whoever sends it make the
// exception that its address is not looked at: it leads to where the configuration says, and nobody else's endpoint has it.
func (w *Watch) IsCanary(ctx context.Context, url string) bool {
	return w.known(ctx, func(url string) string { return url }, url)
}

const (
	// canaryBody is how large a request to the receiver may be: the payload is some bytes.
	canaryBody = 4 << 10
	// canaryAge is how old a signature may be.
	canaryAge = 5 * time.Minute
)

// Receiver takes canaries, at CanaryPath and a token: it is a subscriber like any other, that verifies what it gets. A request with another
// token costs it a comparison.
func (w *Watch) Receiver(store *subscriptions.Store) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if !w.known(r.Context(), tokenOf, strings.TrimPrefix(r.URL.Path, CanaryPath)) {
			http.NotFound(out, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(out, r.Body, canaryBody))
		if err != nil {
			http.Error(out, "the body cannot be read", http.StatusBadRequest)
			return
		}
		turn, why, status := w.verify(r, store, body)
		if why == "" {
			if err := w.noteCanary(r.Context(), canaryReceivedSQL, pgx.StrictNamedArgs{"turn": turn, "at": w.deps.Now()}); err != nil {
				why, status = "it cannot be noted", http.StatusServiceUnavailable
			}
		}
		if why != "" {
			http.Error(out, why, status)
			return
		}
		out.WriteHeader(http.StatusNoContent)
	})
}

// verify says which turn a request is of, or what is wrong with it: never 401, which would be an alert of its own about the endpoint.
func (w *Watch) verify(r *http.Request, store *subscriptions.Store, body []byte) (turn int64, why string, status int) {
	var targets map[id.ID]subscriptions.Target
	row, err := w.readCanary(r.Context())
	if err == nil {
		targets, err = store.Targets(r.Context(), []id.ID{row.endpoint()})
	}
	if err != nil {
		return 0, "the endpoint's secret cannot be read", http.StatusServiceUnavailable
	}
	now := w.deps.Now()
	wrong := "the endpoint has no secret"
	for _, secret := range targets[row.endpoint()].Valid(now) {
		err := signer.Verify(signer.Standard, "", secret.Reveal(), r.Header.Get, body, time.Now(), canaryAge)
		if err == nil {
			var n note
			if err := json.Unmarshal(body, &n); err != nil {
				return 0, "the payload is no canary's", http.StatusBadRequest
			}
			return n.Turn, "", 0
		}
		wrong = "the signature does not verify: " + err.Error()
	}
	return 0, wrong, http.StatusBadRequest
}
