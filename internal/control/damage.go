package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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

// Damaged returns why a tenant is left out of the snapshot, nil where it is not: one of its documents can't be
// understood. Its queries fail, its rows wait, and new readings of it are refused; without the document they would be
// answered in part, or stored where no query looks.
func (v *Snapshot) Damaged(tenant string) error {
	for _, d := range v.damage {
		if d.Tenant == tenant {
			return d
		}
	}
	return nil
}

// Damage returns all documents that can't be understood, in the order of their kinds and ids.
func (v *Snapshot) Damage() []*DamagedError { return v.damage }

// damage collects documents that can't be understood, while a snapshot is made.
type damage []*DamagedError

// add notes a document that costs some tenants; without a tenant it costs none.
func (l *damage) add(d Document, cause error, tenants ...string) {
	if len(tenants) == 0 {
		tenants = []string{""}
	}
	for _, t := range slices.Compact(tenants) {
		*l = append(*l, &DamagedError{d.Kind, d.ID, t, cause})
	}
}

func (l damage) of(tenant string) bool {
	return slices.ContainsFunc(l, func(d *DamagedError) bool { return d.Tenant == tenant })
}

// first returns the first one as an error, nil for none: for callers that need all.
func (l damage) first() error {
	if len(l) == 0 {
		return nil
	}
	return l[0].Cause
}

// remindDamage is how often the log says that documents are damaged.
const remindDamage = 10 * time.Minute

// takeDamage takes what can't be understood of a snapshot that is being made, and the tenants of it out.
func (v *Snapshot) takeDamage(all damage) {
	slices.SortStableFunc(all, func(a, b *DamagedError) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
	})
	v.damage = all
	for _, d := range all {
		delete(v.tenants, d.Tenant)
		delete(v.erasures, d.Tenant)
	}
}

// reportDamage logs damaged documents: when there are others, and now and then.
func (d *Directory) reportDamage(v *Snapshot) {
	all := make([]error, len(v.damage))
	for i, x := range v.damage {
		all[i] = x.Cause
	}
	d.damageTrouble.Report(errors.Join(all...), "documents", len(all))
}
