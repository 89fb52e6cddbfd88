package subscriptions_test

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/subscriptions"
)

func BenchmarkMatchPattern(b *testing.B) {
	for _, c := range []struct{ name, pattern, eventType string }{
		{"everything", "*", "order.paid.late"},
		{"the same", "order.paid.late", "order.paid.late"},
		{"beneath", "order.*", "order.paid.late"},
		{"another", "invoice.*", "order.paid.late"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				subscriptions.MatchPattern(c.pattern, c.eventType)
			}
		})
	}
}

// Every event of a tenant is held against all of the tenant's endpoints.
func BenchmarkMatch(b *testing.B) {
	for _, endpoints := range []int{1, 100} {
		for _, patterns := range []int{0, 1, 20} {
			b.Run(fmt.Sprintf("%d endpoints, %d patterns each", endpoints, patterns), func(b *testing.B) {
				candidates := make([]subscriptions.Candidate, endpoints)
				for i := range candidates {
					candidates[i] = subscriptions.Candidate{Endpoint: int64(i), Status: subscriptions.Enabled}
					for p := range patterns {
						candidates[i].EventTypes = append(candidates[i].EventTypes, fmt.Sprintf("type%d.*", p))
					}
				}
				wanted := fmt.Sprintf("type%d.paid", max(patterns-1, 0)) // the last pattern's: all are looked at
				b.ReportAllocs()
				for b.Loop() {
					for _, c := range candidates {
						if matched, _ := c.Match(wanted); !matched {
							b.Fatal("no match")
						}
					}
				}
			})
		}
	}
}
