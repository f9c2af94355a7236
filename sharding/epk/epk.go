// Package epk computes effective partition keys, the hash by which Cosmos DB places an item in a
// physical partition, and the ranges of that hash which physical partitions and key prefixes cover.
//
// It covers partition key version 2, kinds Hash and MultiHash. It knows nothing of items, containers
// or telemetry. The algorithm is the one that the public SDKs route by (azcosmos sharding/epk,
// azure_data_cosmos effective_partition_key.rs): every component is encoded, hashed by MurmurHash3
// x64-128 with seed 0, reversed to big-endian, and its top two bits are cleared, so that the space
// has 126 bits. An effective partition key is written as upper-case hexadecimal, 32 digits a level.
package epk

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"strings"

	"github.com/twmb/murmur3"
)

// Min and Max bound the space of effective partition keys: every key k has Min <= k < Max.
const (
	Min = ""
	Max = "FF"
)

const levelDigits = 32

// mask clears the top two bits of a level: the space has 126 bits.
const mask = 1<<62 - 1

// Component is one value of a partition key, in the encoding that is hashed.
type Component struct{ encoded []byte }

// String returns the component of a JSON string.
func String(s string) Component {
	b := make([]byte, 0, len(s)+2)
	b = append(b, 0x08)
	b = append(b, s...)
	return Component{append(b, 0xFF)}
}

// Number returns the component of a JSON number.
func Number(f float64) Component {
	return Component{binary.LittleEndian.AppendUint64([]byte{0x05}, math.Float64bits(f))}
}

// Bool returns the component of true or false.
func Bool(b bool) Component {
	if b {
		return Component{[]byte{0x03}}
	}
	return Component{[]byte{0x02}}
}

// Null returns the component of null.
func Null() Component { return Component{[]byte{0x01}} }

// Undefined returns the component of a property that an item does not have.
func Undefined() Component { return Component{[]byte{0x00}} }

// Sum returns the 126-bit hash of one level, as the high 62 and the low 64 bits of a big-endian integer.
func Sum(c Component) (hi, lo uint64) { return sum(c.encoded) }

func sum(b []byte) (hi, lo uint64) {
	h1, h2 := murmur3.Sum128(b)
	return h2 & mask, h1
}

// MultiHash returns the effective partition key of a hierarchical key, or of a prefix of one: every level hashed by
// itself, 32 digits each.
func MultiHash(levels ...Component) string {
	var b strings.Builder
	b.Grow(levelDigits * len(levels))
	for _, c := range levels {
		hi, lo := sum(c.encoded)
		b.WriteString(digits(hi, lo))
	}
	return b.String()
}

// Hash returns the effective partition key of a key of kind Hash: all components hashed as one.
func Hash(components ...Component) string {
	var all []byte
	for _, c := range components {
		all = append(all, c.encoded...)
	}
	return digits(sum(all))
}

func digits(hi, lo uint64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], hi)
	binary.BigEndian.PutUint64(raw[8:], lo)
	return strings.ToUpper(hex.EncodeToString(raw[:]))
}

// Compare orders effective partition keys. Keys differ in length where a hierarchical key has been
// split inside a prefix; a key equals a longer one that continues it with zeros only.
func Compare(a, b string) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	if zeros(a[n:]) && zeros(b[n:]) {
		return 0
	}
	if len(a) > n {
		return 1
	}
	return -1
}

func zeros(s string) bool { return strings.Trim(s, "0") == "" }

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
