package schedules_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/internal/schedules"
)

func timetable(t testing.TB, cron, zone string) schedules.Timetable {
	t.Helper()
	table, err := schedules.Parse(cron, zone)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// What comes of the days on which the clock is set, by the rule that is written at Timetable.
func TestTheDaysOnWhichTheClockIsSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cron, zone, from string
		want                   []string // in the zone's own time
	}{
		{"a skipped time comes as much later", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", []string{
			"2026-03-08T03:30:00-04:00", "2026-03-09T02:30:00-04:00",
		}},
		{"and is one with a time that it meets", "30 2,3 * * *", "America/New_York", "2026-03-08T00:00:00Z", []string{
			"2026-03-08T03:30:00-04:00", "2026-03-09T02:30:00-04:00",
		}},
		{"a repeated time comes once, the first time", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{
			"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00",
		}},
		{"every hour goes through the repeated one twice", "0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", []string{
			"2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00",
		}},
		{"and knows none that is skipped", "*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", []string{
			"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00",
		}},
		{"half an hour is skipped", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{
			"2026-10-04T02:45:00+11:00", "2026-10-05T02:15:00+11:00",
		}},
		{"half an hour comes twice", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", []string{
			"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30",
		}},
		{"quarters of that half hour", "*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:20:00Z", []string{
			"2026-04-05T01:30:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30",
			"2026-04-05T02:00:00+10:30",
		}},
		{"midnight is skipped", "@daily", "Africa/Cairo", "2026-04-23T12:00:00Z", []string{
			"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00",
		}},
		{"a day is skipped: it is one with the next", "0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", []string{
			"2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00", "2012-01-01T09:00:00+14:00",
		}},
		{"a time of that very day comes a day later", "0 9 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z", []string{
			"2011-12-31T09:00:00+14:00", "2012-12-30T09:00:00+14:00",
		}},
		{"the last days of years beyond the zone's table", "0 12 31 12 *", "Europe/Berlin", "2039-06-01T00:00:00Z", []string{
			"2039-12-31T12:00:00+01:00", "2040-12-31T12:00:00+01:00", "2041-12-31T12:00:00+01:00",
		}},
		{"the 29th of February in a zone", "0 0 29 2 *", "Europe/Berlin", "2036-03-01T00:00:00Z", []string{
			"2040-02-29T00:00:00+01:00", "2044-02-29T00:00:00+01:00",
		}},
		{"the 29th of February, over 2100", "0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			table := timetable(t, c.cron, c.zone)
			for _, want := range c.want {
				at = table.Next(at)
				if got := at.In(zone).Format(time.RFC3339); got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
			}
		})
	}
}

// field is one of a cron expression, and which values it means.
type field struct {
	text string
	in   func(int) bool
}

func drawField(low, high int) *rapid.Generator[field] {
	return rapid.Custom(func(t *rapid.T) field {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return field{"*", func(int) bool { return true }}
		case 1:
			step := rapid.IntRange(2, (high-low)/2+1).Draw(t, "step")
			return field{"*/" + strconv.Itoa(step), func(n int) bool { return (n-low)%step == 0 }}
		case 2:
			from := rapid.IntRange(low, high).Draw(t, "from")
			to := rapid.IntRange(from, high).Draw(t, "to")
			return field{fmt.Sprintf("%d-%d", from, to), func(n int) bool { return from <= n && n <= to }}
		}
		some := rapid.SliceOfNDistinct(rapid.IntRange(low, high), 1, 3, rapid.ID).Draw(t, "some")
		var texts []string
		for _, n := range some {
			texts = append(texts, strconv.Itoa(n))
		}
		return field{strings.Join(texts, ","), func(n int) bool { return slices.Contains(some, n) }}
	})
}

const minutesOfAYear = 366 * 24 * 60

// walls is what the clock on the wall shows in each minute of a year, as minutes of the calendar.
type walls struct {
	from  time.Time
	shown []int
	first []int // when it shows each minute from the first on, for the first time; -1: never
	least int
}

func walk(t testing.TB, name string, year int) walls {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	w := walls{from: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}
	for n := range minutesOfAYear {
		local := w.from.Add(time.Duration(n) * time.Minute).In(zone)
		wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
		w.shown = append(w.shown, int(wall.Unix()/60))
	}
	w.least = w.shown[0]
	w.first = slices.Repeat([]int{-1}, w.shown[len(w.shown)-1]-w.least+1)
	for n, wall := range w.shown {
		if at := wall - w.least; w.first[at] < 0 {
			w.first[at] = n
		}
	}
	return w
}

// plan is a cron expression and what it means.
type plan struct{ minute, hour, day, month, weekday field }

func (p plan) String() string {
	return strings.Join([]string{p.minute.text, p.hour.text, p.day.text, p.month.text, p.weekday.text}, " ")
}

func (p plan) means(wall int) bool {
	t := time.Unix(int64(wall)*60, 0).UTC()
	if !p.minute.in(t.Minute()) || !p.hour.in(t.Hour()) || !p.month.in(int(t.Month())) {
		return false
	}
	day, weekday := p.day.in(t.Day()), p.weekday.in(int(t.Weekday()))
	if p.day.text != "*" && p.weekday.text != "*" { // cron's rule: either will do, if both are restricted
		return day || weekday
	}
	return day && weekday
}

// drawPlan leaves out steps of days: whether they count as a restriction is each cron's own affair.
var drawPlan = rapid.Custom(func(t *rapid.T) plan {
	days := func(f field) bool { return !strings.HasPrefix(f.text, "*/") }
	return plan{
		minute: drawField(0, 59).Filter(func(f field) bool { return !strings.Contains(f.text, "-") && f.text != "*" }).Draw(t, "minute"),
		hour:   drawField(0, 23).Draw(t, "hour"), month: drawField(1, 12).Draw(t, "month"),
		day: drawField(1, 31).Filter(days).Draw(t, "day"), weekday: drawField(0, 6).Filter(days).Draw(t, "weekday"),
	}
})

// expected walks through the year minute by minute and asks of each whether it is meant, which is slow and simple.
func (w walls) expected(p plan) (all []time.Time) {
	hits := make([]bool, len(w.shown)+24*60)
	everyHour := true
	for h := range 24 {
		everyHour = everyHour && p.hour.in(h)
	}
	if everyHour {
		for n, wall := range w.shown {
			hits[n] = p.means(wall)
		}
	} else {
		before := 0 // the last minute that the clock did show
		for at, n := range w.first {
			if n >= 0 {
				before = at
			}
			if p.means(w.least + at) {
				hits[w.first[before]+at-before] = true // what was skipped would have come so much after
			}
		}
	}
	for n, hit := range hits {
		if hit {
			all = append(all, w.from.Add(time.Duration(n)*time.Minute))
		}
	}
	return all
}

func TestTimetablesAgreeWithAWalkThroughAYear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone string
		year int
	}{
		{"America/New_York", 2026},
		{"Europe/Berlin", 2026},
		{"Australia/Lord_Howe", 2026},
		{"Pacific/Apia", 2011},
		{"Africa/Cairo", 2026},
		{"Antarctica/Troll", 2026},
		{"Asia/Kathmandu", 2026},
		{"America/Caracas", 2016},
		{"Europe/Berlin", 2040},
		{"America/New_York", 2040},
	} {
		zone, year := c.zone, c.year
		t.Run(fmt.Sprint(zone, " ", year), func(t *testing.T) {
			t.Parallel()
			w := walk(t, zone, year)
			// The first and the last two days lack what comes before and after the year.
			begin, end := w.from.Add(48*time.Hour), w.from.Add((minutesOfAYear-2*24*60)*time.Minute)
			for seed := range 25 {
				p := drawPlan.Example(seed)
				table, err := schedules.Parse(p.String(), zone)
				if fault.Is(err, fault.Invalid) {
					continue // a day that no month has
				}
				at := begin
				for _, next := range w.expected(p) {
					if !next.After(begin) || next.After(end) {
						continue
					}
					if at = table.Next(at); !at.Equal(next) {
						t.Fatalf("%q: got %s, want %s", p, at, next)
					}
				}
				if at = table.Next(at); !at.IsZero() && !at.After(end) {
					t.Fatalf("%q: %s is one too many", p, at)
				}
			}
		})
	}
}

func TestWhatIsNoTimetable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, zone, pointer, words string }{
		{"", "UTC", "/cron", "has 0 fields"},
		{"* * * *", "UTC", "/cron", "has 4 fields"},
		{"0 0 * * * *", "UTC", "/cron", "has 6 fields"},
		{"61 * * * *", "UTC", "/cron", `the minute "61"`},
		{"0 24 * * *", "UTC", "/cron", `the hour "24"`},
		{"0 0 0 * *", "UTC", "/cron", `the day of the month "0"`},
		{"0 0 1 FOO *", "UTC", "/cron", `the month "FOO"`},
		{"0 0 * * 9", "UTC", "/cron", `the day of the week "9"`},
		{"*/0 * * * *", "UTC", "/cron", `the minute "*/0"`},
		{"@every 5m", "UTC", "/cron", "@every is not taken"},
		{"@noon", "UTC", "/cron", "cannot be read"},
		{"TZ=UTC 0 0 * * *", "UTC", "/cron", "belongs into timezone"},
		{"CRON_TZ=UTC", "UTC", "/cron", "belongs into timezone"},
		{"0 0 30 2 *", "UTC", "/cron", "never comes"},
		{"0 0 31 4,6 *", "Europe/Berlin", "/cron", "never comes"},
		{strings.Repeat("1,", 200) + "1 * * * *", "UTC", "/cron", "more than 255"},
		{"@daily", "", "/timezone", "no time zone"},
		{"@daily", "Local", "/timezone", "no time zone"},
		{"@daily", "Mars/Olympus", "/timezone", `"Mars/Olympus" is not known`},
		{"@daily", "../etc/passwd", "/timezone", "is not known"},
	} {
		_, err := schedules.Parse(c.cron, c.zone)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.pointer) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q %q: got %v, want %s: %s", c.cron, c.zone, err, c.pointer, c.words)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "@hourly", "1-5/2,7 ? L W#", "TZ=", "@every 1ns", "0 0 29 2 *"} {
		f.Add(seed, "Europe/Berlin")
	}
	f.Fuzz(func(t *testing.T, cron, zone string) {
		table, err := schedules.Parse(cron, zone)
		if err != nil {
			return
		}
		for _, now := range []time.Time{
			time.Date(2026, 3, 29, 0, 59, 0, 1, time.UTC), time.Date(2040, 12, 31, 1, 0, 0, 0, time.UTC), time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			if next := table.Next(now); !next.IsZero() && !next.After(now) {
				t.Errorf("%q in %q: %s is not after %s", cron, zone, next, now)
			}
		}
	})
}
