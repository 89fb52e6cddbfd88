package pg

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A statement whose caller sets no bound has one; what is bounded stays as it is.
func TestEveryStatementHasADeadline(t *testing.T) {
	t.Parallel()
	own, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for kind, acts := range map[string]struct {
		start func(context.Context) context.Context
		end   func(context.Context)
	}{
		"query": {
			func(ctx context.Context) context.Context {
				return silence{}.TraceQueryStart(ctx, nil, pgx.TraceQueryStartData{})
			},
			func(ctx context.Context) { silence{}.TraceQueryEnd(ctx, nil, pgx.TraceQueryEndData{}) },
		},
		"batch": {
			func(ctx context.Context) context.Context {
				return silence{}.TraceBatchStart(ctx, nil, pgx.TraceBatchStartData{})
			},
			func(ctx context.Context) { silence{}.TraceBatchEnd(ctx, nil, pgx.TraceBatchEndData{}) },
		},
	} {
		ctx := acts.start(t.Context())
		if at, has := ctx.Deadline(); !has || time.Until(at) > statementPatience {
			t.Errorf("%s: the deadline is %v", kind, at)
		}
		if acts.end(ctx); !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("%s: its timer runs on", kind)
		}
		if acts.start(own) != own {
			t.Errorf("%s: a caller's deadline was changed", kind)
		}
		if acts.end(own); own.Err() != nil {
			t.Errorf("%s: a caller's context was ended", kind)
		}
	}
}
