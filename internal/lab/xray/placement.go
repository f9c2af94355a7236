package xray

import (
	"cmp"
	"slices"
	"strings"

	"binnacle/sharding/epk"
)

// placement says in which of the ranges a key lies.
type placement []epk.Range

// evenly returns the ranges of a new container with n physical partitions.
func evenly(n int) placement { return epk.Split(n) }

// of returns the range of a key of strings, or of the first levels of one.
func (p placement) of(levels []string) int {
	if len(levels) == 1 {
		return p.at(epk.MultiHash(epk.String(levels[0]))) // with one level, Hash is the same
	}
	var components []epk.Component
	for _, l := range levels {
		components = append(components, epk.String(l))
	}
	return p.at(epk.MultiHash(components...))
}

func (p placement) at(key string) int {
	i, exact := slices.BinarySearchFunc(p, key, func(r epk.Range, key string) int { return epk.Compare(r.Min, key) })
	if exact {
		return i
	}
	return max(0, i-1)
}

// touched returns how many ranges hold one of these keys or prefixes; all of them for nil.
func (p placement) touched(keys [][]string) int {
	if keys == nil {
		return len(p)
	}
	seen := map[int]bool{}
	for _, k := range keys {
		seen[p.of(k)] = true
	}
	return len(seen)
}

// hottestOverMean returns the largest over the mean, 1 for nothing.
func hottestOverMean(loads []float64) float64 {
	sum := 0.0
	for _, l := range loads {
		sum += l
	}
	if sum == 0 {
		return 1
	}
	return slices.Max(loads) * float64(len(loads)) / sum
}

// largest returns the key with the largest value, the first by name among equals.
func largest(by map[string]float64) (key string, value float64) {
	for k, v := range by {
		if c := cmp.Compare(v, value); c > 0 || c == 0 && (key == "" || strings.Compare(k, key) < 0) {
			key, value = k, v
		}
	}
	return key, value
}
