package box_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/retry"
	"binnacle/internal/store"
)

// bills are counters of what the store charges, and the bills that are made of them. Each answer about a tenant costs
// 1 RU. A bill has at most what processes have counted, and at least what they know to be stored of it; of a process
// that lives or has ended in order it soon has all.
const bills = "bills"

// billing is what has been counted. Most runs count nothing.
type billing struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd *rand.Rand
	on  bool
	// stored are the stored counters by key and id.
	stored map[string]map[string]store.HeatDocument
}

func (b *box) pickBilling() (l billing) {
	l = billing{rnd: rand.New(rand.NewPCG(b.opts.seed, 51)), stored: map[string]map[string]store.HeatDocument{}}
	if l.on = b.has(bills, l.rnd.IntN(6) == 0 && b.opts.years == 0); l.on {
		b.profile.faults = max(b.profile.faults, 0.15)
	}
	return l
}

// actBills sets the clock of a process that counts into another month, or right. It reports whether it did.
func (b *box) actBills() bool {
	l := &b.billing
	if !l.on || l.rnd.IntN(20) > 0 {
		return false
	}
	alive := slices.DeleteFunc(slices.Clone(b.actors), func(a *actor) bool { return a.dead() || a.counter == nil })
	a := alive[l.rnd.IntN(len(alive))]
	b.mu.Lock()
	a.clock.ahead = oneOf(l.rnd, 0, 0, -31*24*time.Hour, 31*24*time.Hour)
	b.mu.Unlock()
	b.event("box", "clock", a.name, a.clock.String())
	return true
}

// billed names what a tenant costs in a month.
type billed struct {
	month  charges.Month
	tenant string
}

// countCharges has the actor count what its requests cost, and store it.
func (a *actor) countCharges() {
	if !a.b.billing.on || a.counter != nil {
		return
	}
	a.counter, a.counted, a.known = charges.NewCounter(a.name), map[billed]float64{}, map[billed]float64{}
	w := heatlog.NewChargesWriter(a.counter, counters{a}, retry.Trouble{Log: a.logger()})
	w.Now = a.machine
	a.start(func(ctx context.Context) { _ = w.Run(ctx) })
}

// count counts an answer of the store.
func (a *actor) count(c *call) {
	tenant, _, _ := strings.Cut(c.pays, "~")
	if a.counter == nil || tenant == "" {
		return
	}
	now := a.machine()
	a.b.mu.Lock()
	a.counted[billed{charges.MonthOf(now), tenant}]++
	a.b.mu.Unlock()
	a.counter.Count(now, charges.Charge{Tenant: tenant, Kind: charges.Reads, RUs: 1})
}

// counters is what an actor sees of the stored counters: store.HeatWriter.
type counters struct{ a *actor }

var _ store.HeatWriter = counters{}

// CreateHeat implements store.HeatWriter.
func (counters) CreateHeat(context.Context, store.HeatDocument) (store.Receipt, error) {
	panic("nobody creates any")
}

// PutHeat implements store.HeatWriter.
func (s counters) PutHeat(ctx context.Context, d store.HeatDocument) (store.Receipt, error) {
	rows := sumOf(d)
	s.a.b.mu.Lock()
	for of, rus := range rows {
		if counted := s.a.counted[of]; rus > counted {
			defer s.a.b.fail("%s stores %g RU of %v, and has counted %g", s.a.name, rus, of, counted)
		}
	}
	s.a.b.mu.Unlock()
	receipt, err := answer(ctx, s.a, &call{kind: "put", what: d.Key + "/" + d.ID + " " + digest(d.Body), isWrite: true},
		func(context.Context, view) (store.Receipt, error) {
			all := s.a.b.billing.stored
			if all[d.Key] == nil {
				all[d.Key] = map[string]store.HeatDocument{}
			}
			all[d.Key][d.ID] = d
			return store.Receipt{RUs: 10}, nil
		})
	s.a.b.mu.Lock()
	defer s.a.b.mu.Unlock()
	if s.a.doubts = s.a.doubts || err != nil; err == nil {
		maps.Copy(s.a.known, rows)
	}
	return receipt, err
}

// sumOf returns what a document says of tenants.
func sumOf(d store.HeatDocument) map[billed]float64 {
	out, sum := map[billed]float64{}, charges.NewSum()
	month, err := charges.ParseMonth(strings.TrimPrefix(d.Key, "charges."), time.Now().AddDate(99, 0, 0))
	if err == nil {
		err = sum.Add(d.Body)
	}
	if err != nil {
		panic(err)
	}
	for key, amount := range sum.Rows {
		if key.Tenant != "" {
			out[billed{month, key.Tenant}] += amount.RUs
		}
	}
	return out
}

// ReadHeat implements store.HeatReader.
func (s counters) ReadHeat(ctx context.Context, q store.HeatQuery, yield func([]byte) error) (store.Usage, error) {
	found, err := answer(ctx, s.a, &call{kind: "counters", what: q.Key}, func(context.Context, view) (out scanned,
		err error) {
		all := s.a.b.billing.stored[q.Key]
		for _, id := range slices.Sorted(maps.Keys(all)) {
			_ = out.keep(all[id].Body)
		}
		return out, nil
	})
	if err == nil {
		err = found.lend(ctx, nil, yield)
	}
	return store.Usage{}, err
}

// cost makes the bill of a tenant.
func (q *querier) cost(ctx context.Context, tenant string, month charges.Month) (out charges.TenantCost, err error) {
	sum, err := heatlog.NewReader(counters{q.actor}).Charges(ctx, month)
	if err == nil {
		out = charges.NewBill(charges.BillInput{Month: month, Sum: sum}).Of(tenant, sum, 10)
	}
	return out, err
}

// askCost asks for a tenant's bill of this month or the last one.
func (q *querier) askCost(ctx context.Context, tenant string) {
	of := billed{charges.MonthOf(q.now()), tenant}
	if q.rnd.IntN(3) == 0 {
		of.month = charges.MonthOf(of.month.Begin().Add(-time.Hour))
	}
	least, _ := q.b.charged(of)
	var bill struct {
		Month    string
		RUs      float64
		Requests float64
		Kinds    map[string]float64 `json:"rusByKind"`
	}
	if !q.get(ctx, tenant, "/api/v1/cost", url.Values{"month": {of.month.String()}}, nil, &bill) {
		return
	}
	_, most := q.b.charged(of)
	if bill.RUs < least || bill.RUs > most || bill.Requests != bill.RUs || bill.Kinds[string(charges.Reads)] != bill.RUs {
		q.b.fail("%s: the bill of %v is %+v, and processes have counted %g RU, and stored %g", q.name, of, bill, most, least)
	}
}

// charged returns the least and the most that a bill may have.
func (b *box) charged(of billed) (least, most float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.actors {
		if most += a.counted[of]; !a.doubts { // else an older write may come late
			least += a.known[of]
		}
	}
	return least, most
}

// endBills holds that all that processes count is stored soon.
func (b *box) endBills() {
	for _, a := range b.actors {
		if a.b != b || a.counter == nil || a.dead() || a.context.Err() != nil {
			continue
		}
		b.await(fmt.Sprintf("what %s has counted is stored", a.name), func() bool {
			stored := map[billed]float64{}
			for _, all := range b.billing.stored {
				for id, d := range all {
					if strings.HasPrefix(id, a.name+".rows.") || strings.HasPrefix(id, a.name+"-") {
						for of, rus := range sumOf(d) {
							stored[of] += rus
						}
					}
				}
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			return maps.Equal(stored, a.counted)
		})
	}
}
