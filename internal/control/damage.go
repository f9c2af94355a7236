package control

import (
	"binnacle/internal/store"
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

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
func (v *Snapshot) Damage() []*store.DamagedError { return v.damage }

// remindDamage is how often the log says that documents are damaged.
const remindDamage = 10 * time.Minute

// takeDamage takes what can't be understood of a snapshot that is being made, and the tenants of it out.
func (v *Snapshot) takeDamage(all store.Damage) {
	slices.SortStableFunc(all, func(a, b *store.DamagedError) int {
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
