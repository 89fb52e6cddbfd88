package intake

import (
	"testing"

	"github.com/postrider/postrider/internal/traceparent"
)

// While nothing is traced, what is enqueued takes no memory for it.
func TestWhatIsNotTracedCostsNothing(t *testing.T) { //nolint:paralleltest // it counts allocations, of which there are others' then
	i, r, ctx := &Intake{}, &request{}, t.Context()
	reqs, columns := []*request{r}, &eventColumns{ids: []int64{1}}
	if n := testing.AllocsPerRun(100, func() {
		span := i.begin(ctx, r, Call{})
		_, stored := i.storing(ctx, reqs)
		columns.addTrace(r.trace)
		stored(nil)
		finish(span, nil, false, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if columns.traces != nil {
		t.Error("a column for nothing")
	}
	columns.ids = append(columns.ids, 2)
	columns.addTrace(traceparent.Context{Trace: [16]byte{1}, Span: [8]byte{1}})
	if len(columns.traces) != 2 || columns.traces[0] != nil || len(columns.traces[1]) != 25 {
		t.Errorf("%v", columns.traces)
	}
}
