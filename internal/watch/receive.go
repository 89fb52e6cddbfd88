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
	askedAt time.Time // when it was read last, or tried to
}

const (
	// reread is how soon the row is read again for strangers, who may come with any token as often as they like.
	reread = time.Second
	// rereadPatience bounds such a reading.
	rereadPatience = 5 * time.Second
)

// known says whether a part of the canary's URL is this one. If it is not, the URL is read anew, unless somebody has since a moment. Nobody
// waits for another's reading: the database may not answer.
func (w *Watch) known(ctx context.Context, since time.Duration, part func(url string) string, given string) bool {
	fits, fresh := w.fits(part, given, since)
	if fits || fresh {
		return fits
	}
	ctx, cancel := context.WithTimeout(ctx, rereadPatience)
	defer cancel()
	row, err := w.readCanary(ctx)
	if err != nil || row.URL == nil {
		return false
	}
	w.mu.Lock()
	w.canary.url = *row.URL
	w.mu.Unlock()
	fits, _ = w.fits(part, given, since)
	return fits
}

// fits compares with what is known. Who finds it neither to fit nor fresh reads it anew.
func (w *Watch) fits(part func(url string) string, given string, since time.Duration) (fits, fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fits = w.canary.url != "" && subtle.ConstantTimeCompare([]byte(part(w.canary.url)), []byte(given)) == 1
	if fresh = time.Since(w.canary.askedAt) < since; !fits && !fresh {
		w.canary.askedAt = time.Now()
	}
	return fits, fresh
}

// IsCanary says whether a URL is the canary's, to the last byte of its token. Only for that one may whoever sends it make the
// exception that its address is not looked at: it leads to where the configuration says, and nobody else's endpoint has it. It reads
// the row for every other URL, since one that was written a moment ago would be refused as leading inside: an attempt costs more.
func (w *Watch) IsCanary(ctx context.Context, url string) bool {
	return w.known(ctx, 0, func(url string) string { return url }, url)
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
		if !w.known(r.Context(), reread, tokenOf, strings.TrimPrefix(r.URL.Path, CanaryPath)) {
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
