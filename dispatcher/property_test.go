package dispatcher

import (
	"flag"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// longRun, a duration, has each property test run for so long instead of some seconds.
const longRun = "POSTRIDER_TEST_PROPERTY_TIME"

var propertyTime = 6 * time.Second

func init() { //nolint:gochecknoinits // rapid's options are flags of the test binary, to be set before they are read
	if given, err := time.ParseDuration(os.Getenv(longRun)); err == nil {
		propertyTime = given
	}
	// The seed is printed, which is enough, and leaves no file in the tree.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
}

// holds checks a property a hundred times, as rapid does, or as often as there is time for; in a long run as often as there is
// time for. What was found is made smaller without an eye on the time.
func holds(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	ends := time.Now().Add(propertyTime)
	failed := false
	for again := true; again && !t.Failed(); again = os.Getenv(longRun) != "" && time.Now().Before(ends) {
		rapid.Check(t, func(t *rapid.T) {
			if !failed && time.Now().After(ends) {
				return
			}
			sound := false
			defer func() { failed = failed || !sound }()
			property(t)
			sound = true
		})
	}
}
