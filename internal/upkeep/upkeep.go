// Package upkeep does what has to be done again and again and by nobody in particular: it makes the partitions of the
// days to come, deletes secrets, keys and alerts whose time is over, cancels what closed endpoints left behind, and
// counts for the metrics.
//
// Each job is a function that says how many things it did. Several processes may run all of them at the same time: a job
// that another one has just done finds nothing to do. The package decides nothing about deliveries, drops no history, and
// needs no leader.
package upkeep

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/rs/zerolog"
)

// job is one thing to do again and again.
type job struct {
	name     string
	every    time.Duration // whole seconds
	patience time.Duration // how long one run may take
	run      func(ctx context.Context) (count int64, err error)

	busy sync.Mutex // a run is under way
}

// Upkeep runs jobs. Make it with New.
type Upkeep struct {
	log  zerolog.Logger
	jobs []*job
}

// grace is how long a stop waits for jobs under way, whose context is over by then.
const grace = 10 * time.Second

// Run runs every job once, at once, and then each at its own pace, until ctx ends. Then it waits for those under way, but
// not for ever: an error names those that did not end.
func (u *Upkeep) Run(ctx context.Context) error {
	var under sync.WaitGroup
	c := cron.New(cron.WithLocation(time.UTC))
	for _, j := range u.jobs {
		c.Schedule(cron.Every(j.every), cron.FuncJob(func() { u.turn(ctx, j) }))
		under.Go(func() { u.turn(ctx, j) })
	}
	c.Start()
	<-ctx.Done()
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
		return nil
	case <-late.C:
		return fmt.Errorf("upkeep: still running %v after its end: %v", grace, u.running())
	}
}

// turn runs a job, unless a run of it is under way, and writes the one line about it: only if it did something or failed.
func (u *Upkeep) turn(ctx context.Context, j *job) {
	if ctx.Err() != nil || !j.busy.TryLock() {
		return
	}
	defer j.busy.Unlock()
	start := time.Now()
	count, err := j.once(ctx)
	if err != nil && ctx.Err() != nil { // we stopped it
		return
	}
	level := zerolog.InfoLevel
	if err != nil {
		level = zerolog.ErrorLevel
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
