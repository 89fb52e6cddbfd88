// Package upkeep does what has to be done again and again and by nobody in particular: it makes the partitions of the
// days to come and drops those whose time is over, deletes secrets, keys and alerts whose time is over, cancels what closed
// endpoints left behind, erases tenants, and counts for the metrics.
//
// Each job is a function that says how many things it did. Of the processes that run them one does each job, which it has by a
// lease; when it dies, another takes over. The package decides nothing about deliveries.
package upkeep

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"

	"github.com/postrider/postrider/internal/metrics"
	"github.com/postrider/postrider/internal/pulse"
)

// job is one thing to do again and again.
type job struct {
	name     string
	every    time.Duration // whole seconds
	patience time.Duration // how long one run may take
	run      func(ctx context.Context) (count int64, err error)
	lost     func() // it is another process's from now on; nil: that means nothing

	busy sync.Mutex // a run is under way
}

// label is the job's name in the metrics.
func (j *job) label() string { return strings.ReplaceAll(j.name, " ", "_") }

// Upkeep runs jobs. Make it with New.
type Upkeep struct {
	log     zerolog.Logger
	jobs    []*job
	metrics *metrics.Metrics // nil: nobody looks
	now     func() time.Time
	leases  *leases // nil: every job is ours
}

// grace is how long a stop waits for jobs under way, whose context is over by then.
const grace = 10 * time.Second

// Run runs every job that is this process's: once, as soon as it is, and then each at its own pace, until ctx ends. Then it waits
// for those under way, but not for ever: an error names those that did not end.
func (u *Upkeep) Run(ctx context.Context) error {
	var under sync.WaitGroup
	c := cron.New(cron.WithLocation(time.UTC))
	for _, j := range u.jobs {
		c.Schedule(cron.Every(j.every), cron.FuncJob(func() { u.turn(ctx, j) }))
	}
	begin := func(j *job) { under.Go(func() { u.turn(ctx, j) }) }
	c.Start()
	u.lead(ctx, begin)
	stopped := c.Stop() // ends when the last turn has; no new one begins
	done := make(chan struct{})
	go func() {
		<-stopped.Done()
		under.Wait()
		close(done)
	}()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
		u.giveBack(ctx)
		return nil
	case <-late.C:
		// Their leases end by themselves: they must not begin elsewhere while they go on here.
		return fmt.Errorf("upkeep: still running %v after its end: %v", grace, u.running())
	}
}

// lead keeps the jobs that are this process's, and begins those that become so, until ctx ends.
func (u *Upkeep) lead(ctx context.Context, begin func(*job)) {
	if u.leases == nil {
		for _, j := range u.jobs {
			begin(j)
		}
		<-ctx.Done()
		return
	}
	renew := func(ctx context.Context) error { return u.renew(ctx, begin) }
	pulse.Again(ctx, leaseEvery, renew, func(err error) { u.log.Warn().Err(err).Msg("leases.failed") })
}

// renew is one look at the leases.
func (u *Upkeep) renew(ctx context.Context, begin func(*job)) error {
	names, byName := make([]string, len(u.jobs)), map[string]*job{}
	for i, j := range u.jobs {
		names[i], byName[j.name] = j.name, j
	}
	taken, lost, err := u.leases.renew(ctx, names)
	for _, name := range lost {
		u.drop(byName[name])
	}
	for _, name := range taken {
		begin(byName[name])
	}
	return err
}

// drop tells a job that it is another process's.
func (u *Upkeep) drop(j *job) {
	if j.lost != nil {
		j.lost()
	}
}

func (u *Upkeep) giveBack(ctx context.Context) {
	if u.leases == nil {
		return
	}
	if err := u.leases.giveBack(context.WithoutCancel(ctx)); err != nil {
		u.log.Warn().Err(err).Msg("leases.failed") // they end by themselves
	}
}

// turn runs a job, unless a run of it is under way or it is another process's, and writes the one line about it: only if it did
// something or failed.
func (u *Upkeep) turn(ctx context.Context, j *job) {
	if ctx.Err() != nil || !j.busy.TryLock() {
		return
	}
	defer j.busy.Unlock()
	led := ctx
	if u.leases != nil {
		under, exit, ours := u.leases.enter(ctx, j.name)
		if !ours {
			return
		}
		defer exit()
		led = under
	}
	start := time.Now()
	count, err := j.once(led)
	if err != nil && led.Err() != nil { // we stopped it, or it is another process's
		if ctx.Err() == nil {
			u.drop(j) // what it told before it ended
		}
		return
	}
	level, result := zerolog.InfoLevel, "done"
	if err != nil {
		level, result = zerolog.ErrorLevel, "failed"
	}
	if u.metrics != nil {
		u.metrics.UpkeepRan(j.label(), result, u.now())
	}
	if count > 0 || err != nil {
		u.log.WithLevel(level).Err(err).Str("job", j.name).Int64("count", count).Dur("took", time.Since(start)).Msg("upkeep")
	}
}

// once runs a job with its own deadline. A panic is an error of that run: it takes neither the process with it nor the
// job's next turn.
func (j *job) once(ctx context.Context) (count int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, j.patience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return j.run(ctx)
}

func (u *Upkeep) running() []string {
	var names []string
	for _, j := range u.jobs {
		if !j.busy.TryLock() {
			names = append(names, j.name)
			continue
		}
		j.busy.Unlock()
	}
	return names
}
