package subscriptions

import (
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/fault"
)

// Ordering is whether an endpoint's deliveries wait for each other. Its value is what the API and the database show.
type Ordering string

// The orderings.
const (
	OrderingNone  Ordering = "none"
	OrderingGroup Ordering = "group" // those of one group_key go one at a time, in the order they were accepted
)

func checkOrdering(o Ordering) (Ordering, error) {
	if o != OrderingNone && o != OrderingGroup {
		return "", fmt.Errorf("is neither %s nor %s", OrderingNone, OrderingGroup)
	}
	return o, nil
}

// RateLimit is how many attempts an endpoint takes in a span of time. They are spaced evenly, not sent in bursts.
type RateLimit struct {
	Limit int
	Per   time.Duration // whole milliseconds
}

const (
	maxRateLimit = 10_000
	maxPerSecond = 10_000
	minRatePer   = time.Millisecond
	maxRatePer   = 24 * time.Hour
)

func checkRateLimit(l RateLimit) (RateLimit, error) {
	var faults fault.Fields
	if l.Limit < 1 || l.Limit > maxRateLimit {
		faults.Addf("/limit", "is not between 1 and %d", maxRateLimit)
	}
	if l.Per < minRatePer || l.Per > maxRatePer {
		faults.Addf("/per", "is not between 1ms and 1d")
	} else {
		faults.Add("/per", wholeMilliseconds(l.Per))
	}
	if len(faults) == 0 && l.Per*maxPerSecond < time.Duration(l.Limit)*time.Second {
		return l, errors.New("is more than 10000 attempts a second")
	}
	return l, faults.Err()
}

// rateLimit reads the two columns that hold one.
func rateLimit(limit *int, perMS *int64) *RateLimit {
	if limit == nil || perMS == nil {
		return nil
	}
	return &RateLimit{Limit: *limit, Per: time.Duration(*perMS) * time.Millisecond}
}

// columns gives the two columns that hold a limit, or none.
func (l *RateLimit) columns() (limit *int, perMS *int64) {
	if l == nil {
		return nil, nil
	}
	return &l.Limit, toMillisecond(&l.Per)
}
