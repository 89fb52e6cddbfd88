package upkeep

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// Prospect is what a run would do with a partition.
type Prospect struct {
	Table     string `json:"table"`
	Partition string `json:"partition"`
	Day       string `json:"day"`    // empty: of the default partition
	Rows      int64  `json:"rows"`   // an estimate, unless something is to go: then they were counted
	Bytes     int64  `json:"bytes"`  // with its indexes
	Action    string `json:"action"` // keep, drop, rewrite or delete
	Goes      int64  `json:"goes"`   // rows
	Stays     int64  `json:"stays"`
	Why       string `json:"why"`
}

// What a run does with a partition.
const (
	actKeep    = "keep"
	actDrop    = "drop"
	actRewrite = "rewrite"
	actDelete  = "delete"
)

// Plan says what a run would do now, and changes nothing. It counts, which a run does not have to.
func (r *Retention) Plan(ctx context.Context) ([]Prospect, error) {
	o, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	plan := []Prospect{}
	for _, p := range o.parts {
		f, err := r.foresee(ctx, o, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		plan = append(plan, f)
	}
	return plan, nil
}

func (r *Retention) foresee(ctx context.Context, o outlook, p part) (Prospect, error) {
	f := Prospect{Table: p.Table, Partition: p.Name, Rows: p.Rows, Bytes: p.Bytes, Action: actKeep, Stays: p.Rows}
	if p.isDefault {
		f.Why = "rows that no day's partition took"
		if p.Blocks == 0 {
			return f, nil
		}
		return r.reckon(ctx, f, overSQL(p.Table)+` AND `+unneededSQL(p.Table), r.overArgs(o, p.Table), actDelete)
	}
	v := judge(p, r.keep, o.owns, o.busy, o.now)
	f.Day = v.day().Format(time.DateOnly)
	args := r.stretch(v)
	args["tenants"] = v.tenants
	switch {
	case !v.over && len(v.tenants) == 0:
		f.Why = "kept until " + endOf(p, r.keep).Format(time.DateOnly)
		return f, nil
	case !v.over:
		f.Why = "some tenants keep less"
		return r.reckon(ctx, f, ofTenantsSQL(p.Table)+` AND `+unneededSQL(p.Table), args, actDelete)
	}
	f.Why = "over"
	f, err := r.reckon(ctx, f, `NOT (`+ofTenantsSQL(p.Table)+`) AND `+unneededSQL(p.Table), args, actRewrite)
	if err != nil {
		return f, err
	}
	switch {
	case f.Stays == 0:
		f.Action = actDrop
	case len(v.tenants) == 0:
		f.Why = "over, but for what is unfinished"
	default:
		f.Why = "over, but for what is unfinished, and for tenants that keep more"
	}
	return f, nil
}

// endOf is when a day is over for tenants that have no time of their own.
func endOf(p part, k Keep) time.Time { return p.day().Add(day).Add(k.of(p.Table)) }

// reckon counts what goes and what stays, by reading all there is.
func (r *Retention) reckon(ctx context.Context, f Prospect, goes string, args pgx.StrictNamedArgs, action string) (Prospect, error) {
	sql := `SELECT count(*), count(*) FILTER (WHERE ` + goes + `) FROM ` + pgx.Identifier{f.Partition}.Sanitize() + ` t`
	if err := r.db.QueryRow(ctx, sql, args).Scan(&f.Rows, &f.Goes); err != nil {
		return f, pg.Fault(fmt.Errorf("count what goes: %w", err))
	}
	if f.Stays = f.Rows - f.Goes; f.Goes > 0 || f.Stays == 0 && action == actRewrite {
		f.Action = action
	}
	return f, nil
}

// commandEvery is how often a command asks the scheduler for the job.
const (
	commandEvery = time.Second
	retentionJob = "retention"
)

// RunNow does a run at once, in whatever process. The scheduler that has the job lends it, as soon as it is between two runs; waiting hears
// once that it has to be waited for.
func (r *Retention) RunNow(ctx context.Context, waiting func()) (count int64, err error) {
	l := newLeases(r.db, r.now)
	for told := false; ; {
		taken, _, err := l.renew(ctx, []string{retentionJob})
		if err != nil {
			return 0, err
		}
		if len(taken) > 0 {
			break
		}
		if err := l.want(ctx, retentionJob); err != nil {
			return 0, err
		}
		if !told {
			told = true
			waiting()
		}
		select {
		case <-time.After(commandEvery):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	defer func() {
		if berr := l.giveBack(context.WithoutCancel(ctx)); err == nil {
			err = berr
		}
	}()
	led, exit, _ := l.enter(ctx, retentionJob)
	defer exit()
	stop := l.hold(led, retentionJob)
	defer stop()
	return r.Run(led)
}

// hold renews one lease until it is stopped.
func (l *leases) hold(ctx context.Context, name string) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(leaseEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_, _, _ = l.renew(ctx, []string{name}) // what is lost ends the run
		}
	}()
	return func() { end(); <-over }
}
