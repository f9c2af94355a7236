package engine

import (
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
)

// owned is an offer with what it belongs to: a container, or a database.
type owned struct {
	offer     *offer
	database  *database
	container *Container // nil for the offer of a database
}

// offers lists all offers. mu is held.
func (a *Account) offers() []owned {
	var out []owned
	for _, db := range a.databases {
		if db.record.Offer != nil {
			out = append(out, owned{db.record.Offer, db, nil})
		}
		for _, co := range db.containers {
			if co.record.Offer != nil {
				out = append(out, owned{co.record.Offer, db, co})
			}
		}
	}
	return out
}

func (a *Account) offer(id string) (owned, error) {
	for _, o := range a.offers() {
		if o.offer.ID == id {
			return o, nil
		}
	}
	return owned{}, refusal.NotFound("the offer %q does not exist", id)
}

// Offers returns the documents of all offers.
func (a *Account) Offers() (out [][]byte, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.Capacity.offersRefused(); err != nil {
		return nil, err
	}
	for _, o := range a.offers() {
		out = append(out, o.offer.document())
	}
	return out, nil
}

// OfferState is an offer in its wire form, with the state that answers report about it.
type OfferState struct {
	Resource
	Floor   float64 // the lowest throughput that it may be set to
	Pending bool    // its throughput waits for splits
}

func (o owned) state() OfferState {
	return OfferState{Resource{Body: o.offer.document(), ETag: o.offer.ETag}, o.floor(), o.offer.Pending != nil}
}

// Offer returns an offer.
func (a *Account) Offer(id string) (OfferState, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.Capacity.offersRefused(); err != nil {
		return OfferState{}, err
	}
	o, err := a.offer(id)
	if err != nil {
		return OfferState{}, err
	}
	return o.state(), nil
}

// ReplaceOffer sets a throughput, if match is the offer's ETag or empty, and divides it over the physical
// partitions: at once, or when there are enough of them.
func (a *Account) ReplaceOffer(id string, t Throughput, match string, now time.Time) (OfferState, error) {
	if ok, retry := a.pace.Take(now); !ok && !a.cfg.Rules.Unlimited {
		return OfferState{}, refusal.TooMany(retry, 0,
			"the throughput of the account's databases and containers has been replaced too often in the last 5 minutes")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.Capacity.offersRefused(); err != nil {
		return OfferState{}, err
	}
	o, err := a.offer(id)
	if err != nil {
		return OfferState{}, err
	}
	if match != "" && match != o.offer.ETag {
		return OfferState{}, refusal.PreconditionFailed()
	}
	next, err := o.offer.replaced(t, len(o.budgets()), o.gigabytes(), now, now.Add(a.cfg.SplitTakes))
	if err != nil {
		return OfferState{}, err
	}
	if err := a.putOffer(o, next); err != nil {
		return OfferState{}, err
	}
	o.offer = next
	if next.Pending != nil {
		a.schedule(next.Pending.Due)
	}
	o.divide()
	return o.state(), nil
}

func (a *Account) putOffer(o owned, next *offer) error {
	b := new(kv.Batch)
	if o.container == nil {
		r := o.database.record
		r.Offer = next
		if err := a.put(b, databaseKey(r.ID), r); err != nil {
			return err
		}
		o.database.record = r
		return nil
	}
	r := o.container.record
	r.Offer = next
	if err := a.put(b, containerKey(o.database.id, r.Definition.ID), r); err != nil {
		return err
	}
	o.container.record = r
	return nil
}

func (o owned) budgets() []*budget.Budget {
	if o.container == nil {
		return o.database.budgets
	}
	parts := o.container.parts()
	out := make([]*budget.Budget, len(parts))
	for i, p := range parts {
		out[i] = p.budget
	}
	return out
}

// floor returns the lowest throughput that the offer may be set to.
func (o owned) floor() float64 {
	return ru.Floor(o.gigabytes(), o.offer.Highest, o.offer.Autoscale)
}

func (o owned) gigabytes() float64 {
	if o.container != nil {
		return o.container.gigabytes()
	}
	total := 0.0
	for _, co := range o.database.containers {
		if co.record.Offer == nil {
			total += co.gigabytes()
		}
	}
	return total
}

// quota returns why the account takes no more databases or containers, or nil. The status of the
// service for a full account is not published; 403 is what it gives for its other quotas. a.mu is held.
func (a *Account) quota() error {
	n := len(a.databases)
	for _, db := range a.databases {
		n += len(db.containers)
	}
	if most := a.cfg.Limits.Containers; n >= most {
		return refusal.Forbidden(0, "the account has %d databases and containers, the most it may", n)
	}
	return nil
}

// quotaToShare returns why no more containers may share the throughput of a database. a.mu is held.
func (db *database) quotaToShare(most int) error {
	n := 0
	for _, co := range db.containers {
		if co.record.Offer == nil {
			n++
		}
	}
	if n >= most {
		return refusal.Forbidden(refusal.SubSharedFull,
			"%d containers share the throughput of the database %q, the most that may; another needs throughput of its own",
			n, db.id)
	}
	return nil
}
