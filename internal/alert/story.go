package alert

import (
	"net/url"
	"time"
)

// story is what one alert's notices, those that a road has not got yet, come to: the oldest first, at least one.
type story struct {
	subject
	shard   int16
	alert   int64
	notices []notice
	recent  int // how many alerts about the same endpoint opened in the hour before it did
}

const (
	// An endpoint that comes and goes is told of this many times in flapSpan; after that only of what lasts.
	flapTold  = 3
	flapSpan  = time.Hour
	flapLasts = 10 * time.Minute
)

// stories makes stories of notices, those of one alert being together and in their order.
func stories(ns []notice) []story {
	var out []story
	at := map[[2]int64]int{}
	for _, n := range ns {
		key := [2]int64{int64(n.Shard), n.Alert}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, story{subject: n.subject, shard: n.Shard, alert: n.Alert, recent: n.recent})
		}
		out[i].notices = append(out[i].notices, n)
	}
	return out
}

func (s story) last() notice { return s.notices[len(s.notices)-1] }

func (s story) opens() bool { return s.notices[0].Verb == "opened" }

// over reports whether the news is that it is over.
func (s story) over() bool { return s.last().Verb == "resolved" }

// news is the verb of what there is to tell: what came while a road was quiet is told as one. "": nothing.
func (s story) news() string {
	switch {
	case s.opens() && s.over():
		return "passed"
	case s.over():
		return "resolved"
	case s.opens():
		return "opened"
	case s.kind() == DeliveryFailed.String():
		return "" // that a failing delivery has failed for good is what was told already
	}
	return "escalated"
}

// kind is what it is about as of the last of the notices.
func (s story) kind() string {
	if about := s.last().About; about != nil {
		return *about
	}
	return s.Kind
}

func (s story) detail() string { return s.last().Detail }

// gravity orders what is told: what is bad before what is over, Postrider's own troubles first.
func (s story) gravity() int {
	if s.over() {
		return -1
	}
	k, err := ParseKind(s.kind())
	if err != nil {
		return len(kindNames)
	}
	return int(k)
}

// damped says what is not told yet, or not at all, of an endpoint that comes and goes: until when it has to last. ok: tell it.
func (s story) damped(now time.Time) (until time.Time, ok bool) {
	lasts := s.OpenedAt.Add(flapLasts)
	if !s.opens() || s.recent < flapTold || !s.over() && !now.Before(lasts) {
		return time.Time{}, true
	}
	if s.over() {
		return time.Time{}, false
	}
	return lasts, false
}

// place is a URL without what may be secret in it.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "URL unknown"
	}
	u.User, u.Fragment = nil, ""
	if u.RawQuery != "" {
		u.RawQuery = redacted
	}
	return u.String()
}
