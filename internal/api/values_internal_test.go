package api

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

func TestStamp(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 3*60*60)
	for want, at := range map[string]time.Time{
		`"2026-11-30T09:00:00.000Z"`: time.Date(2026, 11, 30, 12, 0, 0, 0, east),
		`"2026-11-30T09:00:00.120Z"`: time.Date(2026, 11, 30, 9, 0, 0, 120_999_999, time.UTC),
	} {
		if got, err := json.Marshal(stamp(at)); err != nil || string(got) != want {
			t.Errorf("%s, %v, not %s", got, err, want)
		}
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]whole{"5": 5, "5.0": 5, "5e2": 500, "-0": 0, "1e300": math.MaxInt32, "-1e300": math.MinInt32} {
		var got whole
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(int16(0), int64(1), "")
	f.Add(int16(255), int64(math.MaxInt64), "ZXZ0Og")
	f.Fuzz(func(t *testing.T, shard int16, n int64, text string) {
		last := id.ID{Shard: shard & 0xff, N: max(n&math.MaxInt64, 1)}
		back, err := parseCursor(id.Event, formatCursor(id.Event, last))
		if err != nil || back != last {
			t.Errorf("%v came back as %v, %v", last, back, err)
		}
		if _, err := parseCursor(id.Delivery, formatCursor(id.Event, last)); err == nil {
			t.Error("a cursor of another list is taken")
		}
		if got, err := parseCursor(id.Event, text); err == nil && text != "" && formatCursor(id.Event, got) != text {
			t.Errorf("%q is taken, and is %v", text, got)
		}
	})
}

func TestCursorBounds(t *testing.T) {
	t.Parallel()
	for _, tail := range []string{"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01", "\x00\x00\xff\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", ""} {
		if got, err := parseCursor(id.Event, base64.RawURLEncoding.EncodeToString([]byte("evt:"+tail))); err == nil {
			t.Errorf("%q is %v", tail, got)
		}
	}
}

// Every code has a status; none is left to the 500 of those that have none.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for code, status := range map[fault.Code]int{
		fault.Invalid: 422, fault.Malformed: 400, fault.Unauthenticated: 401, fault.Forbidden: 403, fault.NotFound: 404,
		fault.Conflict: 409, fault.PreconditionFailed: 412, fault.TooLarge: 413, fault.UnsupportedMedia: 415, fault.TooMany: 429,
		fault.Unavailable: 503, fault.Blocked: 422, fault.Internal: 500,
	} {
		p := problemOf(fault.New(code, "a sentence"))
		if p.Status != status || p.Title != http.StatusText(status) || p.Type != typePrefix+string(code) {
			t.Errorf("%s: %+v", code, p)
		}
		if shown := p.Detail == "a sentence"; shown == (code == fault.Internal) {
			t.Errorf("%s tells its caller %q", code, p.Detail)
		}
		if (status == 422) != (len(p.Errors) > 0) {
			t.Errorf("%s: errors %v", code, p.Errors)
		}
	}
}
