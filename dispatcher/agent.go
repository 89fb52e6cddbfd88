package dispatcher

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pg"
)

// registerSQL gives the number of a User-Agent, which an attempt keeps instead of the same words a million times. Two
// processes that register different ones at the same moment may want the same number: one of them has to ask again.
const registerSQL = `
WITH known AS (SELECT id FROM user_agents WHERE name = @name), made AS (
    INSERT INTO user_agents (id, name)
    SELECT (SELECT coalesce(max(id), 0) + 1 FROM user_agents), @name WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT id FROM known UNION ALL SELECT id FROM made`

// register finds out the number of our User-Agent, once.
func (d *Dispatcher) register(ctx context.Context) error {
	for d.agent == 0 {
		rows, err := d.deps.DB.Query(ctx, registerSQL, pgx.StrictNamedArgs{"name": d.cfg.UserAgent})
		if err != nil {
			return pg.Fault(fmt.Errorf("register the User-Agent: %w", err))
		}
		numbers, err := pgx.CollectRows(rows, pgx.RowTo[int16])
		if err != nil {
			return pg.Fault(fmt.Errorf("register the User-Agent: %w", err))
		}
		if len(numbers) > 0 {
			d.agent = numbers[0]
		}
	}
	return nil
}
