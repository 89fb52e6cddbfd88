package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are the units of a size, largest first, powers of 1024 (IEC 80000-13) before those of 1000. A bare K or M is
// left out: people mean either by it.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

const rightSize = "want whole bytes such as 16KiB, 1MiB, 1MB or 65536"

// parseSize reads a number of bytes: a whole number, with a unit or without. Capitals and small letters are the same, and
// one blank may stand before the unit.
func parseSize(text string) (int64, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	unit := strings.TrimPrefix(text[digits:], " ")
	if digits == 0 || strings.HasSuffix(text, " ") {
		return 0, fmt.Errorf("%s is not a size, %s", quote(text), rightSize)
	}
	factor := int64(1)
	if unit != "" {
		if factor = unitBytes(unit); factor == 0 {
			return 0, fmt.Errorf("%s has an unknown unit, %s", quote(text), rightSize)
		}
	}
	number, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil || number > math.MaxInt64/factor {
		return 0, fmt.Errorf("%s is larger than any size, %s", quote(text), rightSize)
	}
	return number * factor, nil
}

// unitBytes gives the bytes of a unit, 0 if there is no such unit.
func unitBytes(name string) int64 {
	for _, unit := range sizeUnits {
		if strings.EqualFold(unit.name, name) {
			return unit.bytes
		}
	}
	return 0
}

// formatSize writes a size in the first unit that divides it evenly; parseSize reads it back without loss.
func formatSize(bytes int64) string {
	for _, unit := range sizeUnits {
		if bytes != 0 && bytes%unit.bytes == 0 {
			return strconv.FormatInt(bytes/unit.bytes, 10) + unit.name
		}
	}
	return "0B"
}
