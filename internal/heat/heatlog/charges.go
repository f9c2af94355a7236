package heatlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/charges/ru"
	"binnacle/internal/heat"
	"binnacle/internal/retry"
	"binnacle/internal/store"
)

// How long counters of charges are kept: bills of thirteen months, and sources of queries as long as weights.
const (
	KeepCharges = 400 * 24 * time.Hour
	KeepSources = 45 * 24 * time.Hour
)

func chargesKey(m charges.Month) string { return "charges." + m.String() }

// When counters are stored: every minute, or, by a process for which this would take more than chargesBudget, in RU/s,
// less often; and as soon as what is not stored is chargesShare times what storing takes, so that a process that is
// killed loses no more. Counters are cumulative: a late write is not wrong.
const (
	chargesEvery  = time.Minute
	chargesBudget = 0.8
	chargesShare  = 100
	chargesLook   = time.Second     // between two looks whether it is time
	chargesFirst  = 5 * time.Second // after the start, for people who try a bill
)

// ChargesWriter stores the counters of a process. Its methods are for one caller at a time.
type ChargesWriter struct {
	counter *charges.Counter
	docs    store.HeatWriter
	trouble retry.Trouble
	own     ownCharge
	cost    float64 // RU of storing, the last time
	stored  float64 // RU that the counter had then
	// next is the latest time to store.
	next time.Time
	// file keeps what is not stored yet; nil for none.
	file *chargesFile

	// Now returns the time by which requests are counted. Run must not have begun when it is set.
	Now func() time.Time
}

// NewChargesWriter returns a ChargesWriter that logs its trouble as t does.
func NewChargesWriter(counter *charges.Counter, docs store.HeatWriter, t retry.Trouble) *ChargesWriter {
	t.Failing, t.Over = "charges are not stored", "charges are stored again"
	return &ChargesWriter{counter: counter, docs: docs, trouble: t, own: ownCharge{factor: 1}, Now: time.Now}
}

// Run stores counters until ctx ends, and then all that has changed.
func (w *ChargesWriter) Run(ctx context.Context) error {
	w.next = w.Now().Add(chargesFirst)
	pause := chargesLook
	if w.file != nil {
		pause = fileEvery
	}
	for retry.Pause(ctx, pause) == nil {
		bounded, cancel := context.WithTimeout(ctx, writeTimeout)
		var kept, err error
		if w.file != nil {
			kept = w.keep(bounded, w.Now())
		}
		due := w.due(w.Now())
		if due {
			err = w.Store(bounded)
		}
		cancel()
		if err = errors.Join(kept, err); !due && err == nil {
			continue
		}
		if ctx.Err() == nil {
			w.trouble.Report(err)
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	err := w.Store(ending)
	if w.trouble.Report(err); w.file != nil {
		w.file.release(err == nil)
	}
	return nil
}

// ownCharge estimates what storing the rows without a tenant costs, before they are stored.
type ownCharge struct {
	stored int     // bytes of the body that is stored; 0: none
	factor float64 // between what was charged the last time and the model
}

// Of a heat document: the bytes around its body, and its index units.
const (
	envelopeBytes = 100
	indexUnits    = 3 * ru.Scalar
)

func (o *ownCharge) modelled(bytes int) float64 {
	if o.stored == 0 {
		return ru.Stepped.Write(bytes+envelopeBytes, indexUnits)
	}
	return ru.Stepped.Replace(o.stored+envelopeBytes, bytes+envelopeBytes, 0)
}

func (o *ownCharge) estimate(bytes int) float64 { return o.factor * o.modelled(bytes) }

// learn takes over the charge for storing a body.
func (o *ownCharge) learn(bytes int, rus float64) {
	o.factor, o.stored = rus/o.modelled(bytes), bytes
}

func (w *ChargesWriter) due(now time.Time) bool {
	return !now.Before(w.next) || w.cost > 0 && w.counter.RUs()-w.stored > chargesShare*w.cost
}

// Store stores what has changed since the last time: tenants' documents first, and then the rows without a tenant,
// which count what storing the others took. Where it fails, the next call stores it.
func (w *ChargesWriter) Store(ctx context.Context) error {
	every := retry.Paced(ctx, chargesEvery)
	w.stored, w.next = w.counter.RUs(), w.Now().Add(every)
	spent := 0.0
	for _, nobody := range []bool{false, true} {
		rus, err := w.store(ctx, nobody)
		if spent += rus; err != nil {
			return err
		}
	}
	if spent > 0 {
		w.cost = spent
	}
	w.next = w.Now().Add(max(every, time.Duration(spent/chargesBudget*float64(time.Second))))
	return nil
}

// store stores the documents that have changed, either those of tenants or the last one, and returns what this was
// charged.
func (w *ChargesWriter) store(ctx context.Context, nobody bool) (spent float64, err error) {
	docs, err := w.counter.Take(w.Now(), w.own.estimate)
	if err != nil {
		return 0, err
	}
	if w.file != nil && len(docs) > 0 {
		if err := w.file.precede(docs); err != nil {
			w.counter.PutBack(docs)
			return 0, fmt.Errorf("keep charges: %w", err)
		}
	}
	for i, d := range docs {
		if d.Nobody != nobody {
			w.counter.PutBack(docs[i : i+1])
			continue
		}
		receipt, err := w.docs.PutHeat(ctx, chargesDocument(d))
		if spent += receipt.RUs; err != nil {
			w.counter.PutBack(docs[i:])
			return spent, err
		}
		if nobody && receipt.RUs > 0 {
			w.own.learn(len(d.Body), receipt.RUs)
		}
	}
	return spent, nil
}

// Charges returns what all processes have counted of a month, and stored.
func (r *Reader) Charges(ctx context.Context, m charges.Month) (*charges.Sum, error) {
	sum := charges.NewSum()
	q := store.HeatQuery{Key: chargesKey(m), From: m.Begin().UnixMilli(), To: m.End().UnixMilli()}
	if _, err := r.docs.ReadHeat(ctx, q, sum.Add); err != nil && !errors.Is(err, store.ErrNoContainer) {
		return nil, fmt.Errorf("read the charges of %s: %w", m, err)
	}
	return sum, nil
}

func (t *Thinner) billed(ctx context.Context, from int64) (found bool, err error) {
	q := store.HeatQuery{Key: hoursKey(charges.MonthOf(time.UnixMilli(from))), From: from, To: from + 1}
	_, err = t.docs.ReadHeat(ctx, q, func([]byte) error {
		found = true
		return nil
	})
	return found, err
}

// Containers reads what containers are paid for; *cosmos.Containers is one.
type Containers interface {
	List(ctx context.Context) ([]string, error)
	ReadThroughput(ctx context.Context, name string) (store.ContainerState, error)
}

func hoursKey(m charges.Month) string { return "billed." + m.String() }

// bill stores what an hour costs, if no other process has: containers as they are found now, with what the frames of
// the hour's minutes say of their load. An hour without frames is before the account was used, unless the hour before
// it was billed.
func (t *Thinner) bill(ctx context.Context, from int64, minutes []heat.Frame) error {
	if len(minutes) == 0 {
		billed, err := t.billed(ctx, from-heat.Hour)
		if err != nil || !billed {
			return err
		}
	}
	now, err := ReadContainers(ctx, t.containers)
	if err != nil {
		return err
	}
	busiest := busiestMinutes(from, minutes)
	for i := range now {
		now[i].Busiest = math.Round(busiest[now[i].Name]*100) / 100
	}
	body, err := charges.Hour{From: from, Containers: now}.Encode()
	if err != nil {
		return err
	}
	_, err = t.docs.CreateHeat(ctx, store.HeatDocument{Key: hoursKey(charges.MonthOf(time.UnixMilli(from))),
		ID: fmt.Sprintf("%013d", from), TTL: KeepCharges, Body: body})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// ReadContainers returns what an account is paid for as it is now.
func ReadContainers(ctx context.Context, c Containers) ([]charges.Container, error) {
	names, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []charges.Container
	shares := false
	read := func(name string) error {
		s, err := c.ReadThroughput(ctx, name)
		if errors.Is(err, store.ErrNoContainer) {
			return nil // dropped meanwhile
		}
		if err != nil {
			return err
		}
		shares = shares || s.Throughput.Shared
		of := charges.Container{Name: name, GB: s.GB, Database: name == store.Database, Serverless: s.Throughput.Serverless}
		if !s.Throughput.Shared {
			of.RUs, of.Autoscale = float64(s.Throughput.RUs), s.Throughput.Autoscale
		}
		out = append(out, of)
		return nil
	}
	for _, name := range names {
		if err := read(name); err != nil {
			return nil, err
		}
	}
	if shares {
		err = read(store.Database)
	}
	return out, err
}

// busiestMinutes returns the RU/s of the busiest minute of every container in an hour.
func busiestMinutes(from int64, frames []heat.Frame) map[string]float64 {
	all := map[string]*[60]float64{}
	for _, f := range frames {
		for i := range f.Cells {
			c := &f.Cells[i]
			of := all[c.Container]
			if of == nil {
				of = &[60]float64{}
				all[c.Container] = of
			}
			minutes := cmp.Or(c.Minutes, int((f.To-f.From)/heat.Minute))
			for m := range minutes {
				if at := (f.To-from)/heat.Minute - int64(m) - 1; at >= 0 && at < 60 {
					of[at] += c.Total() / float64(minutes) / 60
				}
			}
		}
	}
	out := make(map[string]float64, len(all))
	for name, of := range all {
		out[name] = slices.Max(of[:])
	}
	return out
}

// Hours returns what the account was paid for in the hours of a month, as far as they are over and stored.
func (r *Reader) Hours(ctx context.Context, m charges.Month) (out []charges.Hour, err error) {
	q := store.HeatQuery{Key: hoursKey(m), From: m.Begin().UnixMilli(), To: m.End().UnixMilli()}
	_, err = r.docs.ReadHeat(ctx, q, func(doc []byte) error {
		h, err := charges.DecodeHour(doc)
		out = append(out, h)
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNoContainer) {
		return nil, fmt.Errorf("read the hours of %s: %w", m, err)
	}
	return out, nil
}
