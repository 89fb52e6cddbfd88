package dispatcher

import (
	"context"
	"time"

	"github.com/postrider/postrider/subscriptions"
)

// Deliveries are carried by goroutines that stay, and no more of them than it takes. A fresh goroutine's stack grows through
// several sizes on its first delivery, which costs as much as signing it; and a thousand connections in use at once, where a
// hundred do as much, cost a seventh more CPU for each POST, since nothing of them stays in the caches.
//
// How many it takes depends on how long receivers take. Those that have begun nothing for a while are waiting for a slow one:
// for each of these there is one more.

// errand is a claimed delivery with what it needs to go out.
type errand struct {
	claimed claimed
	target  *subscriptions.Target
	read    time.Time // when the target was looked at
}

const (
	carriersPerCore = 64
	// countEvery is how often it is counted how many wait for slow receivers: an attempt that takes longer is slow.
	countEvery = 10 * time.Millisecond
)

// hand gives a delivery to whoever carries next. It never blocks: there is room for as many as can be in flight.
func (d *Dispatcher) hand(work context.Context, e errand) {
	d.senders.Add(1)
	d.errands <- e
	d.reinforce(work)
}

// reinforce starts carriers while there is something to carry and fewer of them than allowed.
func (d *Dispatcher) reinforce(work context.Context) {
	for range len(d.errands) {
		if d.carriers.Add(1) > d.enough.Load() {
			d.carriers.Add(-1)
			return
		}
		go d.carry(work)
	}
}

// carry delivers one delivery after the other until there are more carriers than enough, or work is over.
func (d *Dispatcher) carry(work context.Context) {
	defer d.carriers.Add(-1)
	for d.carriers.Load() <= d.enough.Load() || len(d.errands) > 0 {
		select {
		case e := <-d.errands:
			d.run(work, e)
		case <-work.Done():
			for len(d.errands) > 0 {
				select {
				case e := <-d.errands: // goes back without an attempt
					d.run(work, e)
				default:
				}
			}
			return
		}
	}
}

func (d *Dispatcher) run(work context.Context, e errand) {
	d.begun.Add(1)
	d.busy.Add(1)
	d.deliver(work, e.claimed, e.target, e.read)
	d.busy.Add(-1)
	d.senders.Done()
}

// runCarriers counts how many carriers wait for slow receivers and allows so many more.
func (d *Dispatcher) runCarriers(work context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for before := d.begun.Load(); ; {
		select {
		case <-work.Done():
			return
		case <-tick.C:
		}
		begun := d.begun.Load()
		slow := max(d.busy.Load()-(begun-before), 0)
		before = begun
		d.enough.Store(d.few + slow)
		d.reinforce(work)
	}
}
