package store

import (
	"fmt"
	"slices"
)

// DamagedError says that a control document can't be understood.
type DamagedError struct {
	Kind, ID string
	// Tenant is left out of snapshots because of the document; "" for none.
	Tenant string
	Cause  error
}

// Error names the document, and its fault.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("a control document is damaged: %v", e.Cause)
}

// Unwrap returns what is wrong with the document.
func (e *DamagedError) Unwrap() error { return e.Cause }

// Damage is the documents that can't be understood, while others are read.
type Damage []*DamagedError

// Add notes a document that costs some tenants; without a tenant it costs none.
func (l *Damage) Add(d Document, cause error, tenants ...string) {
	if len(tenants) == 0 {
		tenants = []string{""}
	}
	for _, t := range slices.Compact(tenants) {
		*l = append(*l, &DamagedError{d.Kind, d.ID, t, cause})
	}
}

// Of reports whether a document costs a tenant.
func (l Damage) Of(tenant string) bool {
	return slices.ContainsFunc(l, func(d *DamagedError) bool { return d.Tenant == tenant })
}

// First returns the first one as an error, nil for none: for callers that need all.
func (l Damage) First() error {
	if len(l) == 0 {
		return nil
	}
	return l[0].Cause
}
