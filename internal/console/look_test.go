package console_test

import (
	"testing"

	"github.com/postrider/postrider/dispatcher"
	"github.com/postrider/postrider/internal/alert"
	"github.com/postrider/postrider/internal/intake"
	"github.com/postrider/postrider/internal/schedules"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/subscriptions"
)

// No state is shown by its colour alone, or not at all.
func TestEveryStateHasALook(t *testing.T) {
	t.Parallel()
	words := intake.Statuses()
	for _, s := range dispatcher.States() {
		words = append(words, s.String())
	}
	for _, o := range dispatcher.Outcomes() {
		words = append(words, o.String())
	}
	for _, s := range alert.States() {
		words = append(words, string(s))
	}
	for _, s := range []subscriptions.Status{subscriptions.Enabled, subscriptions.Disabled, subscriptions.Dead} {
		words = append(words, string(s))
	}
	for _, s := range schedules.Statuses() {
		words = append(words, string(s))
	}
	for _, w := range words {
		if !web.HasLook(w) {
			t.Errorf("%s has none", w)
		}
	}
}
