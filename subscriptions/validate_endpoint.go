package subscriptions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/fault"
	"github.com/postrider/postrider/signer"
)

// What an endpoint may be.
const (
	maxURL         = 2048
	maxDescription = 1000
	maxPatterns    = 100
	maxHeaders     = 32
	// maxHeaderBytes bounds names and values together: Node.js, for one, refuses a head beyond 16 KiB, and the signature
	// and what proxies add have to fit too.
	maxHeaderBytes = 8 << 10
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Minute
	maxInFlight    = 1024
	maxDelays      = 50
	minDelay       = time.Millisecond
	maxDelay       = 30 * 24 * time.Hour
)

// rules are the checks that depend on how Postrider was set up.
type rules struct {
	checkURL   func(string) error
	maxTimeout time.Duration
}

func (r rules) url(url string) (string, error) {
	if url == "" {
		return "", errors.New("is required")
	}
	if err := checkText(url, maxURL); err != nil {
		return "", err
	}
	return url, r.checkURL(url)
}

// CheckURL says what is wrong with a URL for an endpoint, as far as its text shows, before any is saved.
func (s *Store) CheckURL(url string) error {
	_, err := s.rules.url(url)
	return err
}

func (r rules) timeout(d time.Duration) (time.Duration, error) {
	if d < minTimeout || d > r.maxTimeout {
		return 0, fmt.Errorf("is not between %v and %v", minTimeout, r.maxTimeout)
	}
	return d, wholeMilliseconds(d)
}

func checkDescription(text string) (string, error) { return text, checkText(text, maxDescription) }

// checkEventTypes gives the patterns without repetitions, in the order they came in.
func checkEventTypes(patterns []string) ([]string, error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("has more than %d patterns", maxPatterns)
	}
	var faults fault.Fields
	kept := make([]string, 0, len(patterns))
	for i, p := range patterns {
		faults.Add("/"+strconv.Itoa(i), CheckPattern(p))
		if !slices.Contains(kept, p) {
			kept = append(kept, p)
		}
	}
	return kept, faults.Err()
}

func checkInFlight(n int) (int, error) {
	if n < 1 || n > maxInFlight {
		return 0, fmt.Errorf("is not between 1 and %d", maxInFlight)
	}
	return n, nil
}

// checkSchedule takes nil for the default schedule.
func checkSchedule(delays []time.Duration) ([]time.Duration, error) {
	if delays == nil {
		return nil, nil
	}
	if len(delays) < 1 || len(delays) > maxDelays {
		return nil, fmt.Errorf("has to have 1 to %d delays", maxDelays)
	}
	var faults fault.Fields
	for i, d := range delays {
		if d < minDelay || d > maxDelay {
			faults.Addf("/"+strconv.Itoa(i), "is not between 1ms and 30d")
			continue
		}
		faults.Add("/"+strconv.Itoa(i), wholeMilliseconds(d))
	}
	return slices.Clone(delays), faults.Err()
}

// wholeMilliseconds refuses what would be kept as something else than was asked for.
func wholeMilliseconds(d time.Duration) error {
	if d%time.Millisecond != 0 {
		return errors.New("is not a whole number of milliseconds")
	}
	return nil
}

func checkScheme(s signer.Scheme) (signer.Scheme, error) { return signer.ParseScheme(string(s)) }

// checkSignatureHeader takes "" for the scheme's own header.
func checkSignatureHeader(scheme signer.Scheme) func(string) (string, error) {
	return func(name string) (string, error) {
		switch {
		case name == "":
			return "", nil
		case scheme != signer.Stripe:
			return "", fmt.Errorf("only the scheme %s lets the header be chosen", signer.Stripe)
		}
		return name, signer.CheckSignatureHeader(name)
	}
}

// checkHeaders judges static headers beside the header that carries the signature, and gives them sorted by name, so
// that the order of a JSON object's members makes no change.
func checkHeaders(signatureHeader string) func([]signer.Header) ([]signer.Header, error) {
	return func(headers []signer.Header) ([]signer.Header, error) {
		if len(headers) > maxHeaders {
			return nil, fmt.Errorf("has more than %d headers", maxHeaders)
		}
		if len(headers) == 0 {
			return nil, nil
		}
		sorted := slices.Clone(headers)
		slices.SortStableFunc(sorted, func(a, b signer.Header) int {
			return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		})
		var faults fault.Fields
		size := 0
		for i, h := range sorted {
			size += len(h.Name) + len(h.Value)
			faults.Add("/"+pointerToken(h.Name), signer.CheckStaticHeader(h.Name, h.Value, signatureHeader))
			if i > 0 && strings.EqualFold(h.Name, sorted[i-1].Name) {
				faults.Addf("/"+pointerToken(h.Name), "the header is given twice; letter case makes no difference")
			}
		}
		if size > maxHeaderBytes {
			faults.Addf("", "is more than %d bytes of names and values", maxHeaderBytes)
		}
		return sorted, faults.Err()
	}
}

// checkKeptHeaders looks whether the names that an endpoint has already go with a new signature header.
func checkKeptHeaders(faults *fault.Fields, names []string, signatureHeader string) {
	for _, name := range names {
		// The value was judged when it was saved.
		if err := signer.CheckStaticHeader(name, "kept", signatureHeader); err != nil {
			faults.Add("/headers/"+pointerToken(name), err)
		}
	}
}

// pointerToken writes a name as a part of a JSON pointer (RFC 6901, 3).
func pointerToken(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
