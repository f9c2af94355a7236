// Package nearest finds the name that a misspelt one may mean.
package nearest

import (
	"cmp"
	"strings"
)

// Name returns the name that shares the largest part of its letter pairs with a text, upper and lower case alike, if
// that is half or more of the pairs of the shorter one; empty if none does.
func Name(text string, names []string) string {
	lower := strings.ToLower(text)
	best, most := "", 0.5
	for _, name := range names {
		if s := share(lower, strings.ToLower(name)); best == "" && s >= most || cmp.Compare(s, most) > 0 {
			best, most = name, s
		}
	}
	return best
}

func share(text, name string) float64 {
	shared, shorter := 0, min(len(text), len(name))-1
	for i := range len(text) - 1 {
		if strings.Contains(name, text[i:i+2]) {
			shared++
		}
	}
	// A small part for the difference in length, so that of two names with the same pairs the closer one wins.
	return float64(min(shared, shorter))/float64(max(1, shorter)) - 0.01*float64(max(len(text), len(name))-shorter)
}
