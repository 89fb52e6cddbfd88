package config

import "strings"

// suggest finds the name that was probably meant: one that says the same in other letters, that begins or ends with what
// was written, or else the nearest, if no more than a quarter of its letters differ.
func suggest(wrong string, names []string) (string, bool) {
	wrong = strings.ToLower(wrong)
	ending := strings.TrimPrefix(wrong, strings.ToLower(envPrefix))
	best, least := "", len(wrong)
	for _, name := range names {
		lower := strings.ToLower(name)
		if ending != "" && (lower == wrong || strings.HasPrefix(lower, wrong+"_") ||
			strings.HasSuffix(lower, "."+ending) || strings.HasSuffix(lower, "_"+ending)) {
			return name, true
		}
		if d := distance(wrong, lower); d < least {
			best, least = name, d
		}
	}
	return best, best != "" && least <= max(1, len(best)/4)
}

// distance counts the letters to insert, drop or change between a and b (Levenshtein), bytewise: names are ASCII. What is
// much longer than any name is taken as far off without counting.
func distance(a, b string) int {
	if len(a) > 2*len(b)+8 {
		return len(a)
	}
	row := make([]int, len(b)+1) // row[j]: from the letters of a so far to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
