package intake_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/id"
	"github.com/postrider/postrider/internal/intake"
)

// Accept with 64 callers, payloads of 1 KiB. Its figures mean something on a PostgreSQL that waits for the disk.
func BenchmarkAccept(b *testing.B) {
	for _, test := range []struct {
		name               string
		tenants, endpoints int
		keyed              bool
	}{
		{"one tenant", 1, 1, false},
		{"one tenant, keys", 1, 1, true},
		{"one tenant, 5 endpoints", 1, 5, false},
		{"64 tenants", 64, 1, false},
	} {
		b.Run(test.name, func(b *testing.B) {
			d := newDesk(b)
			var tenants []id.ID
			for range test.tenants {
				ten := d.tenant(b)
				for range test.endpoints {
					d.endpoint(b, ten, "")
				}
				tenants = append(tenants, ten)
			}
			payload := make([]byte, 1024)
			var n atomic.Int64
			var mu sync.Mutex
			var took []time.Duration
			b.SetParallelism(max(64/runtime.GOMAXPROCS(0), 1))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var own []time.Duration
				for pb.Next() {
					m := int(n.Add(1))
					key := ""
					if test.keyed {
						key = fmt.Sprint(m)
					}
					before := time.Now()
					_, _, err := d.Accept(b.Context(), tenants[m%len(tenants)], key, []intake.Event{{Type: "t", Payload: payload}})
					if err != nil {
						b.Error(err)
						return
					}
					own = append(own, time.Since(before))
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, own...)
			})
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
