package schedules

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the same zones everywhere, also where the machine has none

	"github.com/robfig/cron/v3"

	"github.com/postrider/postrider/internal/fault"
)

// Timetable says when a schedule's events are due: a cron expression, read by the clock on the wall of a time zone.
//
// What happens when that clock is set depends on the hours that the expression names. One that names some ("30 2 * * *") means a
// time of the day, which comes once a day: a time that is skipped comes as much later as the clock was set forward, and one
// that the clock shows twice counts the first time. Two times that meet so are one occurrence. One that names every hour
// ("0 * * * *", "*/15 * * * *") means whenever the clock shows it: twice in an hour that comes twice, and not at all in one that is
// skipped.
type Timetable struct {
	spec      *cron.SpecSchedule // read as if all were UTC
	zone      *time.Location
	everyHour bool
}

// The places of an expression, in words for whoever wrote it.
var places = [...]struct{ name, others string }{
	{"minute", "%s * * * *"},
	{"hour", "0 %s * * *"},
	{"day of the month", "0 0 %s * *"},
	{"month", "0 0 1 %s *"},
	{"day of the week", "0 0 * * %s"},
}

const (
	mostText = 255               // characters of an expression or a zone
	allHours = uint64(1)<<24 - 1 // in the hours of a SpecSchedule, whose other bits say how it was spelled
	cronOnly = "minute, hour, day of the month, month and day of the week, or one of @hourly, @daily, @weekly, @monthly and @yearly"
)

// Parse reads an expression and the name of a zone. Its error is an Invalid fault that points to /cron and /timezone.
func Parse(expression, zone string) (Timetable, error) {
	var faults fault.Fields
	var t Timetable
	var err error
	t.spec, err = parseCron(expression)
	faults.Add("/cron", err)
	t.zone, err = parseZone(zone)
	faults.Add("/timezone", err)
	if err := faults.Err(); err != nil {
		return Timetable{}, err
	}
	t.everyHour = t.spec.Hour&allHours == allHours
	if t.onWall(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Timetable{}, fault.InvalidAt("/cron", "never comes: no month that it names has such a day")
	}
	return t, nil
}

func parseCron(expression string) (*cron.SpecSchedule, error) {
	fields := strings.Fields(expression)
	switch {
	case len(expression) > mostText:
		return nil, fmt.Errorf("has more than %d characters", mostText)
	case len(fields) > 0 && strings.HasPrefix(fields[0], "@every"):
		return nil, fmt.Errorf("@every is not taken, for it names no times: write */15 * * * * or the like")
	case len(fields) == 1 && strings.HasPrefix(fields[0], "@"):
		return spec(fields[0])
	case strings.Contains(expression, "TZ="):
		return nil, fmt.Errorf("names a time zone, which belongs into timezone")
	case len(fields) != len(places):
		return nil, fmt.Errorf("has %d fields; wanted are five: %s", len(fields), cronOnly)
	}
	for n, place := range places {
		if _, err := cron.ParseStandard(fmt.Sprintf(place.others, fields[n])); err != nil {
			return nil, fmt.Errorf("the %s %q cannot be read: %w", place.name, fields[n], err)
		}
	}
	return spec(strings.Join(fields, " "))
}

func spec(expression string) (*cron.SpecSchedule, error) {
	parsed, err := cron.ParseStandard(expression)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w; wanted are %s", err, cronOnly)
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("names no times; wanted are %s", cronOnly)
	}
	s.Location = time.UTC
	return s, nil
}

func parseZone(name string) (*time.Location, error) {
	const wanted = "is no time zone such as Europe/Berlin or UTC"
	if name == "" || name == "Local" || len(name) > mostText {
		return nil, errors.New(wanted)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf(wanted+": %q is not known", name)
	}
	return zone, nil
}

// onWall gives the next time of the calendar after one, both spelled as if they were UTC; zero: there is none. The parser looks
// five years ahead; the 29th of February may be eight away.
func (t Timetable) onWall(after time.Time) time.Time {
	next := t.spec.Next(after)
	if next.IsZero() {
		next = t.spec.Next(after.AddDate(5, 0, 0))
	}
	return next
}

// Next gives the first occurrence after a moment, in UTC; zero: there is none in the next years.
//
// Between two of its changes a zone's clock runs evenly, so that the times on its wall are those of the calendar, moved by what it
// is ahead. One stretch after the other is looked through.
func (t Timetable) Next(after time.Time) time.Time {
	limit := after.AddDate(10, 0, 0)
	for after.Before(limit) {
		s := t.stretch(after)
		if next := s.next(t, after); !next.IsZero() {
			return next.UTC()
		}
		if s.end.IsZero() {
			break
		}
		after = s.end.Add(-1)
	}
	return time.Time{}
}

// stretch is a time in which a zone's clock runs evenly.
type stretch struct {
	start, end    time.Time     // zero: it has none
	ahead, before time.Duration // of UTC, in it and before it
}

// stretch gives the one in which the first nanosecond after a moment lies.
func (t Timetable) stretch(after time.Time) stretch {
	at := after.Add(1).In(t.zone)
	var s stretch
	if s.start, s.end = at.ZoneBounds(); !s.end.IsZero() && !s.end.After(at) {
		// Go ends leap years beyond a zone's table, from 2040 on, a day early: on that day the end has passed already.
		s.end = at.Add(24 * time.Hour)
	}
	s.ahead = ahead(at)
	s.before = s.ahead
	if !s.start.IsZero() {
		s.before = ahead(s.start.Add(-1))
	}
	return s
}

func ahead(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// next gives the first occurrence after a moment within the stretch; zero: there is none.
func (s stretch) next(t Timetable, after time.Time) time.Time {
	from := after
	if !t.everyHour && s.ahead < s.before {
		// The clock was set back: what it shows for the second time has been.
		if again := s.start.Add(s.before - s.ahead); again.Add(-1).After(from) {
			from = again.Add(-1)
		}
	}
	first := s.wall(t, from, s.ahead, s.end)
	if !t.everyHour && s.ahead > s.before {
		// It was set forward: what it skipped comes later, as if it had not been set yet.
		skipped := s.wall(t, after, s.before, s.start.Add(s.ahead-s.before))
		if !skipped.IsZero() && (first.IsZero() || skipped.Before(first)) {
			return skipped
		}
	}
	return first
}

// wall gives the first occurrence after one moment and before another on a clock that is so far ahead; zero: there is none.
func (s stretch) wall(t Timetable, after time.Time, ahead time.Duration, end time.Time) time.Time {
	next := t.onWall(after.UTC().Add(ahead))
	if next.IsZero() {
		return next
	}
	if next = next.Add(-ahead); !end.IsZero() && !next.Before(end) {
		return time.Time{}
	}
	return next
}
