package epk

import (
	"math/big"
	"strings"
)

// Range is a half-open range of effective partition keys.
type Range struct{ Min, Max string }

// Contains reports whether key lies in r.
func (r Range) Contains(key string) bool {
	return Compare(r.Min, key) <= 0 && Compare(key, r.Max) < 0
}

// Overlaps reports whether r and s share a key.
func (r Range) Overlaps(s Range) bool {
	return Compare(r.Min, s.Max) < 0 && Compare(s.Min, r.Max) < 0
}

// Split cuts the space into n equal ranges, as the service does when it creates a container with n
// physical partitions: boundary i is floor(2^126/n)*i (azure_data_cosmos_driver, store.rs).
// It panics when n is less than 1.
func Split(n int) []Range {
	if n < 1 {
		panic("epk: split into fewer than one range")
	}
	width := new(big.Int).Div(new(big.Int).Lsh(big.NewInt(1), 126), big.NewInt(int64(n)))
	out := make([]Range, n)
	low := Min
	for i := range out {
		high := Max
		if i < n-1 {
			cut := new(big.Int).Mul(width, big.NewInt(int64(i+1)))
			s := strings.ToUpper(cut.Text(16))
			high = strings.Repeat("0", levelDigits-len(s)) + s
		}
		out[i] = Range{low, high}
		low = high
	}
	return out
}
