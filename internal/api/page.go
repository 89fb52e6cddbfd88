package api

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/id"
)

// PageIn is what each list takes. Structs that others embed are exported because huma looks into no others.
type PageIn struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"250" default:"50" doc:"How many at most."`
	Cursor string `query:"cursor" maxLength:"64" doc:"The next_cursor of the page before."`
}

// Page is one page of a list, newest first. What is made while somebody pages comes before the first page, so nothing is
// shown twice and nothing left out.
type Page[T any] struct {
	Data       []T     `json:"data" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"Leads to the next page; null on the last. A page before it may be short, even empty: a search that finds little stops after some time, and goes on with the next page."`
}

type pageOut[T any] struct {
	Body Page[T]
}

// readPage reads one more than the page holds, to know whether another follows. list gives at most limit things that
// are older than before.
func readPage[T, J any](
	kind id.Kind, in PageIn, list func(limit int, before id.ID) ([]T, error), show func(T) J, idOf func(T) id.ID,
) (*pageOut[J], error) {
	return searchPage(kind, in, 0, func(limit int, before id.ID) (found []T, next id.ID, err error) {
		if found, err = list(limit+1, before); err == nil && len(found) > limit {
			found, next = found[:limit], idOf(found[limit-1])
		}
		return found, next, err
	}, show)
}

// usualEmptyAfter is Deps.EmptyAfter where nothing else is said.
const usualEmptyAfter = time.Second

// searchPage is for lists that say themselves where the next page begins: a search may stop after some time, with a page
// that is not full. A program that reads one page only takes an empty one for the end, so it gets one, with more to look
// through, only after so long.
func searchPage[T, J any](
	kind id.Kind, in PageIn, emptyAfter time.Duration, search func(limit int, before id.ID) (found []T, next id.ID, err error), show func(T) J,
) (*pageOut[J], error) {
	before, err := parseCursor(kind, in.Cursor)
	if err != nil {
		return nil, err
	}
	found, next, err := search(in.Limit, before)
	for begun := time.Now(); err == nil && len(found) == 0 && !next.IsZero() && time.Since(begun) < emptyAfter; {
		found, next, err = search(in.Limit, next)
	}
	if err != nil {
		return nil, err
	}
	out := &pageOut[J]{Body: Page[J]{Data: make([]J, 0, len(found))}}
	for _, thing := range found {
		out.Body.Data = append(out.Body.Data, show(thing))
	}
	if !next.IsZero() {
		cursor := formatCursor(kind, next)
		out.Body.NextCursor = &cursor
	}
	return out, nil
}

// A cursor is base64url of the list's kind, a colon, the bucket and the number of the last thing shown or looked at. It is opaque to
// callers, so its form may change.
const cursorTail = 2 + 8

func formatCursor(kind id.Kind, last id.ID) string {
	b := append([]byte(kind), ':')
	b = binary.BigEndian.AppendUint16(b, uint16(last.Shard)) //nolint:gosec // 0 to 255
	b = binary.BigEndian.AppendUint64(b, uint64(last.N))     //nolint:gosec // never negative
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor gives the zero id for no cursor.
func parseCursor(kind id.Kind, cursor string) (id.ID, error) {
	if cursor == "" {
		return id.ID{}, nil
	}
	refused := fault.InvalidAt("?cursor", "is no next_cursor of this list")
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	head := string(kind) + ":"
	if err != nil || len(b) != len(head)+cursorTail || string(b[:len(head)]) != head {
		return id.ID{}, refused
	}
	b = b[len(head):]
	shard, n := binary.BigEndian.Uint16(b), binary.BigEndian.Uint64(b[2:])
	if shard >= id.Buckets || n == 0 || n>>63 != 0 {
		return id.ID{}, refused
	}
	return id.ID{Shard: int16(shard), N: int64(n)}, nil
}
