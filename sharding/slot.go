// Package sharding decides where a reading lives: tenant and day give the epoch, the epoch and the
// device give the slot, the slot gives the key, the day gives the container.
//
// Both directions stand here: what a writer derives for one chunk (Placement.Key) and what a reader
// enumerates for a range (Placement.Visits). All of it is a pure function of stored facts; the package
// has no I/O, no clock and no state that changes.
package sharding

import (
	"fmt"
	"math/big"
	mathbits "math/bits"
	"strconv"

	"binnacle/internal/telemetry"
	"binnacle/sharding/epk"
)

// Slots is the number of equal slices of the partition hash space that keys are placed in.
const Slots = 256

// DefaultSlots is how many slots a tenant has when nothing else was decided: enough that every query
// of a tenant fans out and merges, and few enough that the fan-out stays cheap.
const DefaultSlots = 4

// hashBits is the size of the hash of one level of a key.
const hashBits = 126

// Slot is a slice of the partition hash space. 0 to 255 are the 256 equal ones. A container of a hundred physical
// partitions and more has ranges that are narrower: for those there are finer slices, from 512 on. Slice i of 2^b equal
// ones has the number 2^b + i, for b from 9 to 16.
type Slot int

const (
	slotBits     = 8
	fineSlotBits = 16
)

// FineSlot returns slice index of 1<<bits equal slices of the hash space.
func FineSlot(bits, index int) Slot {
	if bits <= slotBits {
		return Slot(index << (slotBits - bits))
	}
	return Slot(1<<bits + index)
}

// Slice returns which of 1<<bits equal slices of the hash space the slot is.
func (s Slot) Slice() (bits, index int) {
	if s < Slots {
		return slotBits, int(s)
	}
	b := mathbits.Len(uint(s)) - 1
	return b, int(s) - 1<<b
}

func (s Slot) valid() bool { return s >= 0 && s < Slots || s >= 2*Slots && s < 2<<fineSlotBits }

// SlotOf returns the slot in which all documents with this first-level key value are placed: the top 8 of the 126 bits
// of its hash.
func SlotOf(tenantShard string) Slot {
	hi, _ := epk.Sum(epk.String(tenantShard))
	return Slot(hi >> (hashBits - 64 - 8))
}

// Shard returns the first-level key value of a tenant in a slot: the tenant's name, a tilde and the smallest k >= 0 in
// lower-case base 36 that the hash places there. It takes 256 hashes on average, 2^b for a slice of 2^b; a Placement
// remembers its own.
func Shard(tenant string, slot Slot) string {
	bits, index := slot.Slice()
	for k := int64(0); ; k++ {
		s := shard(tenant, k)
		if hi, _ := epk.Sum(epk.String(s)); int(hi>>(hashBits-64-bits)) == index {
			return s
		}
	}
}

// Shards returns Shard of the 256 equal slots, in their order: all of them for about 1,600 hashes.
func Shards(tenant string) []string {
	out := make([]string, Slots)
	for k, missing := int64(0), Slots; missing > 0; k++ {
		s := shard(tenant, k)
		if slot := SlotOf(s); out[slot] == "" {
			out[slot] = s
			missing--
		}
	}
	return out
}

func shard(tenant string, k int64) string { return tenant + "~" + strconv.FormatInt(k, 36) }

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

// GroupOf returns which of n groups a device is in: the hash of its id, as a 126-bit integer, modulo n. A tenant with n
// slots keeps the chunks of a group in the slot of that index.
func GroupOf(device string, n int) int {
	hi, lo := epk.Sum(epk.String(device))
	m := uint64(n)
	return int(mathbits.Rem64(hi%m, lo, m))
}

// AddBuckets adds loads to the groups of devices by GroupOf. buckets has the loads by GroupOf(device, len(buckets)): a
// bucket is in one group if the groups divide the buckets, and else spread evenly over the groups of its devices.
func AddBuckets(groups, buckets []float64) {
	n := len(groups)
	common, rest := n, len(buckets)
	for rest != 0 { // the greatest common divisor
		common, rest = rest, common%rest
	}
	for b, load := range buckets {
		for g := b % common; g < n; g += common {
			groups[g] += load * float64(common) / float64(n)
		}
	}
}

// Epoch says which slots a tenant has, which devices have several of them, and which container its
// chunks go to, from a day on until the next epoch begins. Epochs are stored facts and never change.
type Epoch struct {
	From      telemetry.Day     `json:"from"`
	Slots     []Slot            `json:"slots"`
	Heavy     map[string][]Slot `json:"heavy,omitempty"`     // slots of devices that need more than one
	Dedicated bool              `json:"dedicated,omitempty"` // the tenant's own containers, not the shared ones
}

// FirstEpoch returns the epoch that a tenant is created with. It covers all days before the second one.
func FirstEpoch(tenant string, slots int) Epoch {
	return Epoch{Slots: Spread(tenant, slots)}
}

// Check returns the first fault of an epoch, or nil.
func (e Epoch) Check() error {
	if err := checkSlots(e.Slots); err != nil {
		return err
	}
	for device, slots := range e.Heavy {
		if err := checkSlots(slots); err != nil {
			return fmt.Errorf("heavy device %q: %w", device, err)
		}
	}
	return nil
}

// MaxKeys is how many slots a tenant, or one of its devices, may have.
const MaxKeys = 1024

func checkSlots(slots []Slot) error {
	if len(slots) == 0 || len(slots) > MaxKeys {
		return fmt.Errorf("%d slots: 1 to %d are allowed", len(slots), MaxKeys)
	}
	seen := make(map[Slot]bool, len(slots))
	for _, s := range slots {
		if !s.valid() {
			return fmt.Errorf("slot %d: 0 to %d, and %d to %d, are allowed", s, Slots-1, 2*Slots, 2<<fineSlotBits-1)
		}
		if seen[s] {
			return fmt.Errorf("slot %d stands twice", s)
		}
		seen[s] = true
	}
	return nil
}

// Pin is the decision of an operator on a tenant's placement. The zero Pin leaves all to the balancer.
type Pin struct {
	// Keep keeps the epochs as they are.
	Keep bool `json:"keep,omitempty"`
	// Keys is the number of first-level keys; 0 leaves it to the balancer.
	Keys int `json:"keys,omitempty"`
}

// EpochChange is an epoch of a tenant that the balancer has decided, with the reason.
type EpochChange struct {
	Tenant string `json:"tenant"`
	Epoch  Epoch  `json:"epoch"`
	Reason string `json:"reason"`

	// Share is the tenant's share of the load of the container.
	Share float64 `json:"share"`
	// KeysBefore and KeysAfter count first-level keys of groups.
	KeysBefore int `json:"keysBefore"`
	KeysAfter  int `json:"keysAfter"`
	// Moved counts the groups that move to another physical partition.
	Moved int `json:"moved"`
	// Devices counts the devices that get several keys for the first time.
	Devices int `json:"devicesSpread"`
	// Before and After are the load of the container's hottest partition over the mean, without any change and with all.
	Before float64 `json:"hottestBefore"`
	After  float64 `json:"hottestAfter"`
}
