// Command outbox runs the relay of docs/outbox.md once, over the database and the server that the environment names.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/client"

	"example.com/shop/relay"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := client.New(os.Getenv("POSTRIDER_URL"), os.Getenv("POSTRIDER_API_KEY"),
		client.WithRetries(3), client.WithBackoff(time.Millisecond, time.Millisecond))
	if err != nil {
		return err
	}
	return relay.Relay(context.Background(), db, c)
}
