package dispatcher

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
)

// wakes collects which buckets are said to have something new. All of it is hints: the poll is the truth.
type wakes struct {
	mu     *sync.Mutex
	shards map[int16]bool
	soon   map[int16]bool // to be added when the timer that runs does
	signal chan struct{}
}

func newWakes() wakes {
	return wakes{mu: &sync.Mutex{}, shards: map[int16]bool{}, soon: map[int16]bool{}, signal: make(chan struct{}, 1)}
}

// soonAfter is how long hints wait for others that are in no haste: where much has a time of its own, a look serves several.
const soonAfter = 20 * time.Millisecond

func (w wakes) addSoon(shards ...int16) {
	if len(shards) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.soon) == 0 {
		time.AfterFunc(soonAfter, w.addThose)
	}
	for _, s := range shards {
		w.soon[s] = true
	}
}

func (w wakes) addThose() {
	w.mu.Lock()
	those := slices.Collect(maps.Keys(w.soon))
	clear(w.soon)
	w.mu.Unlock()
	w.add(those...)
}

func (w wakes) add(shards ...int16) {
	w.mu.Lock()
	for _, s := range shards {
		w.shards[s] = true
	}
	w.mu.Unlock()
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (w wakes) take() []int16 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]int16, 0, len(w.shards))
	for s := range w.shards {
		out = append(out, s)
	}
	clear(w.shards)
	return out
}

// Wake hints that a bucket has deliveries that are due. It never blocks.
func (d *Dispatcher) Wake(shard int16) { d.woken.add(shard) }

// Accepted hints that deliveries have come into being, whose commit is over: what is known of them need not be looked for.
// It never blocks.
func (d *Dispatcher) Accepted(news []NewDelivery) {
	for i := range news {
		n := &news[i]
		if n.Pull {
			continue
		}
		d.roads.note(id.ID{Shard: n.Shard, N: n.Endpoint}, laneOf(n.Group, 0, 0, ordinary), n.DueAt)
	}
	d.nudge()
}

// Forget has what is claimed from now on sent to the endpoint as it is now: it was changed in this process. What another
// process changes shows within a second.
func (d *Dispatcher) Forget(endpoint id.ID) {
	d.targets.forget(endpoint)
	d.roads.reopen(endpoint)
	d.woken.add(endpoint.Shard)
}

// wakeChannel is the NOTIFY channel; a payload is the hex of the buckets' bytes.
const wakeChannel = "postrider_wake"

// Hint has Listen call Then for what is said on another channel. It must not block.
type Hint struct {
	Channel string
	Then    func()
}

// Listen brings in the hints of other processes until ctx ends, over a connection of its own. It connects again by
// itself; what is missed meanwhile the poll finds.
func (d *Dispatcher) Listen(ctx context.Context, url string, others ...Hint) error {
	l := &pgxlisten.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			cfg, err := pg.ParseURL(url)
			if err != nil {
				return nil, err //nolint:wrapcheck // says it all
			}
			return pgx.ConnectConfig(ctx, cfg) //nolint:wrapcheck // pgxlisten hands it to LogError
		},
		LogError: func(_ context.Context, err error) {
			if ctx.Err() == nil {
				d.log.Warn().Err(err).Msg("wake.listen_failed")
			}
		},
		ReconnectDelay: 5 * time.Second,
	}
	l.Handle(wakeChannel, pgxlisten.HandlerFunc(func(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
		shards, err := hex.DecodeString(n.Payload)
		if err != nil {
			return nil //nolint:nilerr // somebody else's words on our channel
		}
		for _, s := range shards {
			d.woken.add(int16(s))
		}
		return nil
	}))
	for _, h := range others {
		l.Handle(h.Channel, pgxlisten.HandlerFunc(func(context.Context, *pgconn.Notification, *pgx.Conn) error {
			h.Then()
			return nil
		}))
	}
	err := l.Listen(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // asked to stop
	}
	return fmt.Errorf("listen for wakes: %w", err)
}

// Notifier sends hints from a process that does not dispatch itself. NOTIFY takes a lock at commit that all others wait
// for, so it is sent outside the enqueues' transactions, for many at once.
type Notifier struct {
	db    pg.Querier
	woken wakes
}

// notifyEvery is the least time between two NOTIFYs of one process.
const notifyEvery = 10 * time.Millisecond

// NewNotifier makes a notifier; Run it.
func NewNotifier(db pg.Querier) *Notifier { return &Notifier{db: db, woken: newWakes()} }

// Wake hints that a bucket has deliveries that are due. It never blocks.
func (n *Notifier) Wake(shard int16) { n.woken.add(shard) }

// Accepted hints that deliveries have come into being. It never blocks. Those for later need no hint.
func (n *Notifier) Accepted(news []NewDelivery) {
	var due []int16
	for i := range news {
		if d := &news[i]; !d.Scheduled && !d.Pull {
			due = append(due, d.Shard)
		}
	}
	if len(due) > 0 {
		n.woken.add(due...)
	}
}

// Run sends hints until ctx ends. One that cannot be sent is dropped: the poll is the truth.
func (n *Notifier) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.woken.signal:
		}
		shards := n.woken.take()
		bytes := make([]byte, 0, id.Buckets)
		for _, s := range shards {
			bytes = append(bytes, byte(s)) //nolint:gosec // a bucket is a byte
		}
		_, _ = n.db.Exec(ctx, `SELECT pg_notify($1, $2)`, wakeChannel, hex.EncodeToString(bytes))
		select {
		case <-ctx.Done():
			return
		case <-time.After(notifyEvery):
		}
	}
}
