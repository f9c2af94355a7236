package sharding

import (
	"fmt"

	"binnacle/internal/telemetry"
)

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
