package schedules

import "time"

// Grace is how old an occurrence may be to count as in time: what a busy machine, a restart or a failover takes.
const Grace = time.Minute

const (
	mostMade   = 100    // events of one schedule in a transaction
	mostPassed = 10_000 // occurrences of one that are looked at in a transaction
)

// turn is what is to be done about a schedule now.
type turn struct {
	made    []time.Time // occurrences that make events, in order
	skipped int64       // occurrences that do not
	next    time.Time   // the first that is left; it may be due as well. Zero: there is none
}

// due decides, from the first occurrence that is not dealt with. It makes at most so many events. What is left is for another
// transaction.
func (t Timetable) due(from, now time.Time, late Late, most int) turn {
	next := from
	var d turn
	if late != All {
		var newest time.Time // of those that are late
		for n := 0; now.Sub(next) > Grace && !next.IsZero(); n++ {
			if n == mostPassed { // another late one follows, so that none of these is the one that counts
				return turn{skipped: int64(n), next: next}
			}
			newest, next = next, t.Next(next)
			d.skipped++
		}
		if late == Last && d.skipped > 0 && (next.IsZero() || next.After(now)) {
			d.made = []time.Time{newest}
			d.skipped--
		}
	}
	for !next.IsZero() && !next.After(now) && len(d.made) < most {
		d.made = append(d.made, next)
		next = t.Next(next)
	}
	d.next = next
	return d
}
