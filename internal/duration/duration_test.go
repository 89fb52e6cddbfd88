package duration_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/duration"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0":                          0,
		"0s":                         0,
		"15s":                        15 * time.Second,
		"+15s":                       15 * time.Second,
		"250ms":                      250 * time.Millisecond,
		"1us1µs1μs":                  3 * time.Microsecond,
		"1.5h":                       90 * time.Minute,
		".5m":                        30 * time.Second,
		"5.s":                        5 * time.Second,
		"1h30m":                      90 * time.Minute,
		"30d":                        30 * 24 * time.Hour,
		"1d12h":                      36 * time.Hour,
		"12h1d":                      36 * time.Hour,
		"0.5d":                       12 * time.Hour,
		"106751d":                    106751 * 24 * time.Hour,
		"9223372036854775807ns":      math.MaxInt64,
		"106751d23h47m16.854775807s": math.MaxInt64,
	} {
		got, err := duration.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const right = ", want a duration such as 15s, 1h30m or 30d"
	for text, want := range map[string]string{
		"":                           "is empty",
		"15":                         `"15" has no unit`,
		"0.0":                        `"0.0" has no unit`,
		"1h30":                       `"1h30" has no unit`,
		"s":                          `"s" is not a duration`,
		"five":                       `"five" is not a duration`,
		".s":                         `".s" is not a duration`,
		"1.2.3s":                     `"1.2.3s" is not a duration`,
		"-5m":                        `"-5m" is negative`,
		"-0":                         `"-0" is negative`,
		"+":                          `"+" is not a duration`,
		"1h-30m":                     `"1h-30m" has an unknown unit "h-"`,
		"1D":                         `"1D" has an unknown unit "D"`,
		"2w":                         `"2w" has an unknown unit "w"`,
		"1e3s":                       `"1e3s" has an unknown unit "e"`,
		" 5s":                        `" 5s" is not a duration`,
		"5s ":                        `"5s " has an unknown unit "s "`,
		"5s\n":                       `"5s\n" has an unknown unit "s\n"`,
		"106752d":                    `"106752d" is longer than 106751d`,
		"99999999999999999999d":      `"99999999999999999999d" is longer than 106751d`,
		"106751d23h47m16.854775808s": `"106751d23h47m16.854775808s" is longer than 106751d`,
		"106751d24h":                 `"106751d24h" is longer than 106751d`,
	} {
		got, err := duration.Parse(text)
		if err == nil || err.Error() != want+right {
			t.Errorf("Parse(%q) = %v, %v; want error %s", text, got, err, want+right)
		}
	}
}

func TestErrorsStayShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("9", 10_000), "1" + strings.Repeat("x", 10_000)} {
		_, err := duration.Parse(text)
		if err == nil || len(err.Error()) > 250 {
			t.Errorf("Parse of %d bytes: %v", len(text), err)
		}
	}
}

func TestParseList(t *testing.T) {
	t.Parallel()
	want := []time.Duration{time.Minute, 5 * time.Minute, 2 * 24 * time.Hour}
	for _, text := range []string{"1m,5m,2d", "1m, 5m ,2d", " 1m,5m,2d "} {
		got, err := duration.ParseList(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseList(%q) = %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":       "is empty, want durations such as 1m,5m,30m",
		" ":      "is empty, want durations such as 1m,5m,30m",
		"1m,,5m": "item 2: is empty, want a duration such as 15s, 1h30m or 30d",
		"1m,5":   `item 2: "5" has no unit, want a duration such as 15s, 1h30m or 30d`,
	} {
		if got, err := duration.ParseList(text); err == nil || err.Error() != want {
			t.Errorf("ParseList(%q) = %v, %v; want error %s", text, got, err, want)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s":     0,
		"1ns":    1,
		"250ms":  250 * time.Millisecond,
		"1.5s":   1500 * time.Millisecond,
		"20s":    20 * time.Second,
		"1m":     time.Minute,
		"1m30s":  90 * time.Second,
		"10m":    10 * time.Minute,
		"1h":     time.Hour,
		"10h":    10 * time.Hour,
		"1h30m":  90 * time.Minute,
		"1h0m1s": time.Hour + time.Second,
		"1d":     24 * time.Hour,
		"5d":     5 * 24 * time.Hour,
		"1d12h":  36 * time.Hour,
		"1d30s":  24*time.Hour + 30*time.Second,
		"-1m0s":  -time.Minute,
	} {
		if got := duration.Format(d); got != want {
			t.Errorf("Format(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestRound(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 400 * time.Millisecond: 0, 90*time.Second + 600*time.Millisecond: 91 * time.Second,
		time.Hour + 29*time.Second: time.Hour, time.Hour + 30*time.Second: time.Hour + time.Minute,
	} {
		if got := duration.Round(d); got != want {
			t.Errorf("Round(%v) = %v, want %v", d, got, want)
		}
	}
}

// Whatever Parse takes, Format writes so that Parse reads the same span again; what it refuses, it refuses in one line.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0", "15s", "1h30m", "1d12h", "0.3d", "-1s", "106751d23h47m16.854775807s", "1.µs", "9e9d", "1d\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := duration.Parse(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("the error of %q is more than a line: %v", text, err)
			}
			return
		}
		if d < 0 {
			t.Fatalf("Parse(%q) = %d: overflowed", text, d)
		}
		again, err := duration.Parse(duration.Format(d))
		if err != nil || again != d {
			t.Errorf("Parse(%q) = %d, written %q, read again %d, %v", text, d, duration.Format(d), again, err)
		}
		if goes, err := time.ParseDuration(text); err == nil && goes != d {
			t.Errorf("Parse(%q) = %d, Go says %d", text, d, goes)
		}
		if days, rest, some := strings.Cut(text, "d"); some { // a day is 24 hours, and the rest is Go's
			n, err := strconv.ParseInt(days, 10, 32)
			if goes, restErr := time.ParseDuration("0s" + rest); err == nil && restErr == nil && d != time.Duration(n)*24*time.Hour+goes {
				t.Errorf("Parse(%q) = %d, want %d days and %d", text, d, n, goes)
			}
		}
	})
}

func FuzzParseList(f *testing.F) {
	for _, seed := range []string{"1m,5m,30m,2h,6h", "1m, 5m", ",", "1m,,2m", "1d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := duration.ParseList(text)
		if err != nil {
			return
		}
		again, err := duration.ParseList(duration.FormatList(list))
		if err != nil || !slices.Equal(again, list) {
			t.Errorf("ParseList(%q) = %v, read again %v, %v", text, list, again, err)
		}
	})
}

func ExampleParse() {
	d, err := duration.Parse("1d12h")
	fmt.Println(d, err)
	_, err = duration.Parse("15")
	fmt.Println(err)
	// Output:
	// 36h0m0s <nil>
	// "15" has no unit, want a duration such as 15s, 1h30m or 30d
}

func ExampleParseList() {
	list, err := duration.ParseList("1m,5m,30m,2h,6h")
	fmt.Println(list, err)
	// Output: [1m0s 5m0s 30m0s 2h0m0s 6h0m0s] <nil>
}

func ExampleFormat() {
	fmt.Println(duration.Format(120*time.Hour), duration.Format(90*time.Minute), duration.Format(time.Minute))
	// Output: 5d 1h30m 1m
}

func ExampleFormatList() {
	fmt.Println(duration.FormatList([]time.Duration{time.Minute, 48 * time.Hour}))
	// Output: 1m,2d
}
