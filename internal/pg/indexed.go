package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const indexedSQL = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true)`

// Indexed has the statements that follow in the transaction look things up one by one, by their indexes. It is for work on some
// hundred rows of large tables: a plan that was made while a table was empty, or before anybody has counted it, reads all of it.
func Indexed(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, indexedSQL); err != nil {
		return fmt.Errorf("settle a transaction: %w", err)
	}
	return nil
}
