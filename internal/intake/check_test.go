package intake_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// unconnected checks and has no database: what it refuses was refused without one.
func unconnected() *intake.Intake {
	return intake.New(intake.Deps{Now: func() time.Time { return start }, MaxPayload: 100})
}

func TestEachRuleNamesItsPlace(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) *time.Time { when := start.Add(d); return &when }
	for name, test := range map[string]struct {
		break_ func(*intake.Event)
		want   string
	}{
		"no type":                      {func(e *intake.Event) { e.Type = "" }, "/type"},
		"a blank in the type":          {func(e *intake.Event) { e.Type = "order paid" }, "/type"},
		"a newline behind the type":    {func(e *intake.Event) { e.Type = "order\n" }, "/type"},
		"a long type":                  {func(e *intake.Event) { e.Type = strings.Repeat("t", 129) }, "/type"},
		"a content type without slash": {func(e *intake.Event) { e.ContentType = "json" }, "/content_type"},
		"a header in the content type": {func(e *intake.Event) { e.ContentType = "text/plain\r\nX-Injected: 1" }, "/content_type"},
		"a NUL in the content type":    {func(e *intake.Event) { e.ContentType = "text/plain; a=\"\x00\"" }, "/content_type"},
		"a long content type":          {func(e *intake.Event) { e.ContentType = "text/" + strings.Repeat("p", 251) }, "/content_type"},
		"a dot-less uid with a slash":  {func(e *intake.Event) { e.UID = "a/b" }, "/uid"},
		"a uid like an id":             {func(e *intake.Event) { e.UID = "evt_1" }, "/uid"},
		"a long uid":                   {func(e *intake.Event) { e.UID = strings.Repeat("u", 129) }, "/uid"},
		"a long group key":             {func(e *intake.Event) { e.GroupKey = strings.Repeat("ü", 257) }, "/group_key"},
		"a NUL in the group key":       {func(e *intake.Event) { e.GroupKey = "a\x00" }, "/group_key"},
		"a group key that is no UTF-8": {func(e *intake.Event) { e.GroupKey = "\xff" }, "/group_key"},
		"far ahead":                    {func(e *intake.Event) { e.DeliverAt = at(90*24*time.Hour + time.Millisecond) }, "/deliver_at"},
		"an empty list of endpoints":   {func(e *intake.Event) { e.EndpointIDs = []string{} }, "/endpoint_ids"},
		"too many endpoints":           {func(e *intake.Event) { e.EndpointIDs = make([]string, 101) }, "/endpoint_ids"},
		"large metadata":               {func(e *intake.Event) { e.Metadata = map[string]any{"m": strings.Repeat("m", 16<<10)} }, "/metadata"},
		"a NUL in metadata":            {func(e *intake.Event) { e.Metadata = map[string]any{"m": []any{"a\x00"}} }, "/metadata"},
		"a NUL in a name in metadata":  {func(e *intake.Event) { e.Metadata = map[string]any{"m\x00": 1} }, "/metadata"},
		"a number beyond all bounds":   {func(e *intake.Event) { e.Metadata = map[string]any{"m": json.Number("1e999999")} }, "/metadata"},
		"a number below all bounds":    {func(e *intake.Event) { e.Metadata = map[string]any{"m": json.Number("1e-999999")} }, "/metadata"},
		"infinity":                     {func(e *intake.Event) { e.Metadata = map[string]any{"m": math.Inf(1)} }, "/metadata"},
		"deep metadata":                {func(e *intake.Event) { e.Metadata = deep(34) }, "/metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := order(1)
			test.break_(&ev)
			_, _, err := unconnected().Accept(t.Context(), id.ID{N: 1}, "", []intake.Event{ev})
			wantPointers(t, err, test.want)
			_, _, err = unconnected().Accept(t.Context(), id.ID{N: 1}, "", []intake.Event{order(1), ev})
			wantPointers(t, err, "/events/1"+test.want)
			_, _, err = unconnected().AcceptBatch(t.Context(), id.ID{N: 1}, "", []intake.Event{ev})
			wantPointers(t, err, "/events/0"+test.want)
		})
	}
}

func deep(levels int) map[string]any {
	m := map[string]any{}
	for range levels {
		m = map[string]any{"m": m}
	}
	return m
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := unconnected().Accept(t.Context(), id.ID{N: 1}, "", []intake.Event{
		{Type: "a b", UID: "a b"}, order(1), {Type: "t", GroupKey: "\x00"},
	})
	wantPointers(t, err, "/events/0/type", "/events/0/uid", "/events/2/group_key")
}

func TestBoundsOfARequest(t *testing.T) {
	t.Parallel()
	in := unconnected()
	accept := func(key string, events ...intake.Event) error {
		_, _, err := in.Accept(t.Context(), id.ID{N: 1}, key, events)
		return err
	}
	wantPointers(t, accept(""), "/events")
	wantPointers(t, accept("", make([]intake.Event, 1001)...), "/events")
	for _, key := range []string{strings.Repeat("k", 256), "schlüssel", "a\nb", "\x7f"} {
		wantPointers(t, accept(key, order(1)), "")
	}
	large := intake.Event{Type: "t", Payload: make([]byte, 101)}
	wantCode(t, accept("", large), fault.TooLarge)
	if err := accept("", order(1), large); !fault.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "/events/1/payload") {
		t.Errorf("error %v, which should name the event that is too large", err)
	}
}

func TestTwoEventsOfABatchWithOneUID(t *testing.T) {
	t.Parallel()
	a, b := order(1), order(2)
	a.UID, b.UID = "u", "u"
	_, _, err := unconnected().Accept(t.Context(), id.ID{N: 1}, "", []intake.Event{order(0), a, a, b})
	wantPointers(t, err, "/events/3/uid")
}

func ExampleIntake_Accept_fault() {
	in := intake.New(intake.Deps{Now: time.Now})
	_, _, err := in.Accept(context.Background(), id.ID{N: 1}, "", []intake.Event{{Type: "order paid"}})
	fmt.Println(err)
	// Output: the request breaks a rule: /type an event type has 1 to 128 letters, digits, '_', '.' and '-'
}
