package config

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "65536": 65536, "1B": 1, "1kB": 1000, "1KB": 1000, "1MB": 1_000_000, "2GB": 2_000_000_000, "1TB": 1e12,
		"16KiB": 16384, "16kib": 16384, "16 KiB": 16384, "1MiB": 1 << 20, "1GiB": 1 << 30, "8TiB": 8 << 40,
		"9223372036854775807": math.MaxInt64, "8388607TiB": 8388607 << 40, "0016KiB": 16384,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("parseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "KiB", "-1", "+1", "1.5MiB", "1,000", "1_000", "0x10", "1e3", "1M", "16K", "1 kib ", "1  KiB", " 1KiB", "1KiB\n", "1KİB",
		"9223372036854775808", "8388608TiB", "99999999999999999999999", "NaN", "inf",
	} {
		if got, err := parseSize(text); err == nil || !strings.HasSuffix(err.Error(), ", "+rightSize) {
			t.Errorf("parseSize(%q) = %d, %v", text, got, err)
		}
	}
}

func TestFormatSize(t *testing.T) {
	t.Parallel()
	for want, size := range map[string]int64{
		"0B": 0, "1B": 1, "1023B": 1023, "1KiB": 1024, "1kB": 1000, "16KiB": 16384, "1MiB": 1 << 20, "1MB": 1e6, "1025KiB": 1025 << 10, "8TiB": 8 << 40,
	} {
		if got := formatSize(size); got != want {
			t.Errorf("formatSize(%d) = %q, want %q", size, got, want)
		}
	}
}

var sizeForm = regexp.MustCompile(`^([0-9]+) ?(?i:([kmgt])(i?)b|b)?$`)

// sizeAs reads a size with numbers that have no end; one that no size is as large as for what is no size.
func sizeAs(text string) *big.Int {
	none := new(big.Int).Lsh(big.NewInt(1), 100)
	m := sizeForm.FindStringSubmatch(text)
	if m == nil || strings.HasSuffix(text, " ") {
		return none
	}
	size, _ := new(big.Int).SetString(m[1], 10)
	base := int64(1000)
	if m[3] != "" {
		base = 1024
	}
	power := 1 + int64(strings.Index("kmgt", strings.ToLower(m[2])))
	if m[2] == "" {
		power = 0
	}
	return size.Mul(size, new(big.Int).Exp(big.NewInt(base), big.NewInt(power), nil))
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"0", "16KiB", "1MB", "1 GiB", "8388608TiB", "9223372036854775807B", "-1", "1k", "١KiB", "1 b", "0 TB", "1  KiB", "1KIB ", "9007199254740992KiB", "1 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := parseSize(text)
		if want := sizeAs(text); (err == nil) != want.IsInt64() || err == nil && size != want.Int64() {
			t.Fatalf("parseSize(%q) = %d, %v; want %v", text, size, err, want)
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("the error of %q is more than a line: %v", text, err)
			}
			return
		}
		if size < 0 {
			t.Fatalf("parseSize(%q) = %d: overflowed", text, size)
		}
		if again, err := parseSize(formatSize(size)); err != nil || again != size {
			t.Errorf("parseSize(%q) = %d, written %q, read again %d, %v", text, size, formatSize(size), again, err)
		}
	})
}
