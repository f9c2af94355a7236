// Package sharding decides where a reading lives: tenant and day give the epoch, the epoch and the
// device give the slot, the slot gives the key, the day gives the container.
//
// Both directions stand here: what a writer derives for one chunk (Placement.Key) and what a reader
// enumerates for a range (Placement.Visits). All of it is a pure function of stored facts; the package
// has no I/O, no clock and no state that changes.
package sharding

import (
	"math/big"
	"math/bits"
	"strconv"

	"binnacle/internal/epk"
)

// Slots is the number of equal slices of the partition hash space that keys are placed in.
const Slots = 256

// DefaultSlots is how many slots a tenant has when nothing else was decided: enough that every query
// of a tenant fans out and merges, and few enough that the fan-out stays cheap.
const DefaultSlots = 4

// hashBits is the size of the hash of one level of a key.
const hashBits = 126

// Slot is one of the 256 equal slices of the partition hash space, 0 to 255.
type Slot int

// SlotOf returns the slot in which all documents with this first-level key value are placed: the top 8 of the 126 bits
// of its hash.
func SlotOf(tenantShard string) Slot {
	hi, _ := epk.Sum(epk.String(tenantShard))
	return Slot(hi >> (hashBits - 64 - 8))
}

// Shard returns the first-level key value of a tenant in a slot: the tenant's name, a tilde and the smallest k >= 0 in
// lower-case base 36 that the hash places there. It takes 256 hashes on average; a Placement remembers its own.
func Shard(tenant string, slot Slot) string {
	for k := int64(0); ; k++ {
		if s := tenant + "~" + strconv.FormatInt(k, 36); SlotOf(s) == slot {
			return s
		}
	}
}

// Spread returns n slots at equal distances, turned by the hash of the tenant's name so that tenants do not start in
// the same one: slot i = floor((i+h)*256/n) mod 256, where h is the 126-bit hash of the name divided by 2^126. The
// slots are in the order of i, which is the order that Placement counts by.
func Spread(tenant string, n int) []Slot {
	hi, lo := epk.Sum(epk.String(tenant))
	h := new(big.Int).SetUint64(hi)
	h.Lsh(h, 64).Or(h, new(big.Int).SetUint64(lo))
	out := make([]Slot, n)
	for i := range out {
		x := new(big.Int).Lsh(big.NewInt(int64(i)), hashBits)
		x.Add(x, h).Mul(x, big.NewInt(Slots))
		x.Div(x, big.NewInt(int64(n))).Rsh(x, hashBits)
		out[i] = Slot(x.Int64() % Slots)
	}
	return out
}

// GroupOf returns the hash of a device id, as a 126-bit integer, modulo n.
func GroupOf(device string, n int) int {
	hi, lo := epk.Sum(epk.String(device))
	m := uint64(n)
	return int(bits.Rem64(hi%m, lo, m))
}
