package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/config"
	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/pg"
	"github.com/postrider/postrider/migrations"
)

// database is a connection to a database whose schema this binary knows, with its clock. Who makes ids takes a node number
// first.
type database struct {
	pool  *pgxpool.Pool
	queue *pgxpool.Pool // for the dispatcher's queue; nil in a process without
	clock *pg.Clock
	newer bool          // the schema has migrations that this binary does not know, and runs on
	node  *pg.Node      // nil before takeNode
	ids   *id.Generator // likewise
}

var (
	errOlderSchema = errors.New("the database's schema is older than this binary: run `postrider migrate up`")
	errNewerSchema = errors.New("the database's schema is newer than this binary and not one that it can run on: run the binary that made it, or a later one")
)

// openDatabase connects. An older schema is brought up to date if the configuration says so, else refused.
func openDatabase(ctx context.Context, c config.Database, tracer pgx.QueryTracer) (*database, error) {
	pool, err := openPool(ctx, c, int(c.MaxConns), tracer)
	if err != nil {
		return nil, err
	}
	db := &database{pool: pool, clock: &pg.Clock{}}
	if err := db.prepare(ctx, c); err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

const (
	// queueConns is how many of a process's connections are for the queue at most: one claims while another looks for what is
	// due and a third records. It has a quarter of few, and always one.
	queueConns = 3
)

// withoutQueue gives what is left of the connections for everything else, and how many are for the dispatcher's queue.
func withoutQueue(c config.Database) (rest config.Database, queue int) {
	queue = max(min(int(c.MaxConns)/4, queueConns), 1)
	c.MaxConns = max(c.MaxConns-int32(queue), 1)
	return c, queue
}

// openPool connects to what database.url leads to.
func openPool(ctx context.Context, c config.Database, conns int, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	if c.Pooled() {
		return pg.OpenPooled(ctx, c.URL, conns, tracer)
	}
	return pg.OpenTraced(ctx, c.URL, conns, tracer)
}

// openQueue connects for the dispatcher's queue.
func (db *database) openQueue(ctx context.Context, c config.Database, conns int) (err error) {
	switch {
	case conns == 0:
	case c.Pooled():
		db.queue, err = pg.OpenPooled(ctx, c.URL, conns, nil)
	default:
		db.queue, err = pg.OpenQueue(ctx, c.URL, conns)
	}
	return err
}

func (db *database) prepare(ctx context.Context, c config.Database) error {
	fit, err := checkSchema(ctx, db.pool, c)
	if err != nil {
		return err
	}
	db.newer = fit.Newer()
	if err := db.clock.Sync(ctx, db.pool); err != nil {
		return err
	}
	return db.clock.Join(ctx, db.pool)
}

// takeNode makes the process one that can make ids. A process that goes on for longer than the lease has to hold the node.
func (db *database) takeNode(ctx context.Context) error {
	node, err := pg.TakeNode(ctx, db.pool, db.clock)
	if err != nil {
		return err
	}
	db.node, db.ids = node, id.NewGenerator(node.Number(), db.clock.Now)
	return nil
}

// checkSchema brings an older schema up to date if it may, and says whether the binary can work on what there is.
func checkSchema(ctx context.Context, db pg.Querier, c config.Database) (migrations.Fit, error) {
	fit, err := migrations.Look(ctx, db)
	if err == nil && fit.Older() && c.MigrateOnStart {
		if _, err = migrations.Up(ctx, c.SessionURL()); err == nil {
			fit, err = migrations.Look(ctx, db)
		}
	}
	switch {
	case err != nil:
		return fit, err
	case fit.Older():
		return fit, errOlderSchema
	case !fit.Runs():
		return fit, errNewerSchema
	}
	return fit, nil
}

// closePatience is how long the pool waits for connections that are still at work. After a stop that went well there are
// none; after one that did not, the process ends all the same.
const (
	closePatience    = 5 * time.Second
	giveBackPatience = 2 * time.Second
)

func (db *database) close() error {
	if db.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), giveBackPatience)
		defer cancel()
		_ = db.node.GiveBack(ctx) // a database that is away fails no stop: the number is free again when its lease ends
	}
	closed := make(chan struct{})
	go func() {
		if db.queue != nil {
			db.queue.Close()
		}
		db.pool.Close()
		close(closed)
	}()
	late := time.NewTimer(closePatience)
	defer late.Stop()
	select {
	case <-closed:
		return nil
	case <-late.C:
		return fmt.Errorf("close the database pool: %d connections are still at work", db.pool.Stat().AcquiredConns())
	}
}
