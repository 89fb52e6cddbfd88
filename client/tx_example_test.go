package client_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/client"
)

// An order and its event come together, or neither does.
func ExampleEnqueueTx() {
	db, ctx, order := pretendDB{}, context.Background(), "1001" // a *pgxpool.Pool, say

	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE orders SET paid = true WHERE id = $1`, order); err != nil {
			return err
		}
		id, err := client.EnqueueTx(ctx, tx, client.Event{
			Tenant: "acme", Type: "order.paid", UID: "paid-" + order, Payload: []byte(`{"order": "` + order + `"}`),
		})
		fmt.Println(id)
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// evt_0723s3kr8009w5e
	// committed
}

// pretendDB stands for a database in the example; TestEnqueueTx has a real one.
type pretendDB struct{ pgx.Tx }

func (db pretendDB) Begin(context.Context) (pgx.Tx, error) { return db, nil }

func (pretendDB) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.NewCommandTag("UPDATE 1"), nil
}

func (pretendDB) QueryRow(context.Context, string, ...any) pgx.Row { return pretendRow{} }

func (pretendDB) Commit(context.Context) error {
	fmt.Println("committed")
	return nil
}

func (pretendDB) Rollback(context.Context) error { return pgx.ErrTxClosed }

type pretendRow struct{}

func (pretendRow) Scan(into ...any) error {
	id, _ := into[0].(*string)
	*id = "evt_0723s3kr8009w5e"
	return nil
}
