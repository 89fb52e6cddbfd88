package client_test

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/client"
)

// An order and its event come together, or neither does.
func ExampleEnqueueTx() {
	pay := func(ctx context.Context, db *pgx.Conn, order string) error {
		return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE orders SET paid = true WHERE id = $1`, order); err != nil {
				return err
			}
			_, err := client.EnqueueTx(ctx, tx, client.Event{
				Tenant: "acme", Type: "order.paid", UID: "paid-" + order, Payload: []byte(`{"order": "` + order + `"}`),
			})
			return err
		})
	}
	_ = pay
}
