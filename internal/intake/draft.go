package intake

import (
	"slices"
	"time"

	"github.com/postrider/postrider/internal/id"
)

// verdict is what one request comes to.
type verdict struct {
	receipts []Receipt
	replayed bool
	err      error
}

// draft is a request on its way through one transaction. A transaction that is run again starts from new drafts.
type draft struct {
	*request
	claims []*claim // its idempotency rows
	events []event  // one for each item
	verdict
}

// event is what becomes of an item: a new event, or the one that it repeats.
type event struct {
	known
	old     bool
	targets []target
	skipped *string
}

// known is what a receipt says, as far as the table knows it.
type known struct {
	n         int64
	eventType string
	uid       string
	fanOut    int
	deliverAt *time.Time
	unrouted  bool // its fan-out is still to come
	broken    bool // it breaks its type's schema
}

func (k known) receipt(shard int16) Receipt {
	r := Receipt{
		ID: id.ID{Shard: shard, N: k.n}, Type: k.eventType, UID: k.uid, Status: statusQueued, Deliveries: k.fanOut,
		CreatedAt: id.TimeOf(k.n), DeliverAt: k.deliverAt,
	}
	switch {
	case k.broken:
		r.Status = statusFailed
	case k.fanOut == 0 && !k.unrouted:
		r.Status = statusSucceeded
	case k.deliverAt != nil:
		r.Status = statusScheduled
	}
	return r
}

func (i *Intake) draft(r *request) *draft {
	d := &draft{request: r, claims: r.claims(), events: make([]event, len(r.items))}
	for n := range r.items {
		it := &r.items[n]
		if it.same != n {
			d.events[n] = d.events[it.same]
			continue
		}
		d.events[n].known = known{n: i.ids.Next(), eventType: it.Type, uid: it.UID}
	}
	return d
}

// made is how many events the draft comes to.
func (d *draft) made() (n int) {
	for at := range d.items {
		if d.isNew(at) {
			n++
		}
	}
	return n
}

// isNew reports whether the n-th item is an event that is to be written.
func (d *draft) isNew(n int) bool {
	return d.err == nil && !d.replayed && !d.events[n].old && d.items[n].same == n
}

// repeatsSome reports whether some of the items are events that were there already.
func (d *draft) repeatsSome() bool {
	return slices.ContainsFunc(d.events, func(e event) bool { return e.old })
}

func (d *draft) conclude() verdict {
	if d.err != nil {
		return verdict{err: d.err}
	}
	v := verdict{replayed: true, receipts: make([]Receipt, len(d.items))}
	for n := range d.items {
		v.replayed = v.replayed && !d.isNew(n)
		v.receipts[n] = d.events[d.items[n].same].receipt(d.tenant.Shard)
	}
	return v
}
