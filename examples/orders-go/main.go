// Command orders-go is a shop whose tables are in the PostgreSQL that Postrider uses. It stores an order and enqueues the event
// order.paid in one transaction: there is no order without its event, and no event without its order, whatever is killed when.
//
//	DATABASE_URL=postgres://… ADDR=127.0.0.1:8090 TENANT=demo orders-go
//	curl -X POST http://127.0.0.1:8090/orders -d '{"item": "ticket", "amount": "49.90"}'
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "orders-go:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then lets what has begun end.
func run(ctx context.Context) error {
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("read DATABASE_URL: %w", err)
	}
	defer db.Close()
	s := &shop{db: db, tenant: cmp.Or(os.Getenv("TENANT"), "demo")}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8090"))
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	server := &http.Server{Handler: s.routes(), ReadTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = server.Shutdown(ending)
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
