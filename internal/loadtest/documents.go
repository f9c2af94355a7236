package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/cosmosemu"
	"binnacle/internal/epk"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// container returns how a layout with a document per reading is keyed and indexed: by its key and by what a reader
// looks for, and nothing else, as Binnacle's chunks are.
func (l Layout) container() cosmos.Layout {
	out := cosmos.Layout{Name: "readings", Indexed: []string{"/tenant", "/device", "/ts"}}
	switch l {
	case ByDate, BySuffix:
		out.Key = []string{"/date"}
		if l == BySuffix {
			out.Key = []string{"/dateSuffix"}
		}
		out.Indexed = append(out.Key[:1:1], out.Indexed...)
	case Device:
		out.Key = []string{"/device"}
	default:
		out.Key = []string{"/tenant", "/device"}
	}
	return out
}

// suffixes is how many suffixes a date has in BySuffix: the guidance's example is date_hash%15.
const suffixes = 15

// document is a reading that is to be stored: the message itself, with an id.
type document struct {
	key  []string
	id   string
	body []byte

	at       time.Time // of the newest reading
	readings int
	first    string // effective partition key of its first level
	marks    [2]int // of its readings: from the first until before the second
	tried    bool
}

func (l Layout) document(m message) document {
	d := document{key: []string{m.tenant, m.device}, id: m.device + "." + strconv.FormatInt(m.at.UnixMilli(), 10),
		at: m.at, readings: 1}
	d.body = append(make([]byte, 0, len(m.json)+64), `{"id":"`+d.id+`",`...)
	switch date := m.at.Format(time.DateOnly); l {
	case ByDate:
		d.key = []string{date}
		d.body = append(d.body, `"date":"`+date+`",`...)
	case BySuffix:
		d.key = []string{date + "_" + strconv.Itoa(sharding.GroupOf(m.device, suffixes))}
		d.body = append(d.body, `"dateSuffix":"`+d.key[0]+`",`...)
	case Device:
		d.key = []string{m.device}
	}
	d.body = append(d.body, m.json[1:]...)
	return d
}

// documents stores a document per reading. Fleet time goes second by second: each begins with new attempts
// at what was answered 429 before, then come the second's readings.
func (p pass) documents(ctx context.Context, a *account) (totals, error) {
	layout := p.layout.container()
	if err := a.client.Containers().CreateAs(ctx, layout, store.Throughput{RUs: p.throughput()}); err != nil {
		return totals{}, err
	}
	rec, err := newRecorder(p, p.cfg.opens(), func() ([]cosmosemu.PartitionStats, error) {
		return a.partitions(layout.Name)
	})
	if err != nil {
		return totals{}, err
	}
	w := writer{items: a.client.Items(layout.Name), now: a.clock.now, rec: rec}
	l := newLoad(p.cfg, p.scenario, p.metrics)
	bins := newJSONBins(p.cfg)
	for l.due().Before(p.cfg.opens()) { // only bins have to settle
		if p.layout == Hundred {
			bins.add(l.take())
		} else {
			l.skip()
		}
	}
	again := int(math.Ceil(p.cfg.perSecond()))
	closes := p.cfg.opens().Add(p.cfg.measured(p.layout))
	for at := p.cfg.opens(); at.Before(closes); at = at.Add(time.Second) {
		a.clock.reach(at)
		if err := rec.advance(at); err != nil {
			return totals{}, err
		}
		if err := w.retry(ctx, again); err != nil {
			return totals{}, err
		}
		for l.due().Before(at.Add(time.Second)) {
			m := l.take()
			a.clock.reach(m.at)
			d, full := p.layout.document(m), true
			if p.layout == Hundred {
				d, full = bins.add(m)
			}
			if !full {
				continue
			}
			w.offer(&d)
			if err := w.write(ctx, d); err != nil {
				return totals{}, err
			}
		}
		rec.waited(at, w.longest())
		p.tick()
	}
	t := newTotals(l, p.cfg.opens(), closes)
	t.stored = w.stored
	if t.trace, err = rec.end(l); err != nil {
		return t, err
	}
	t.partitions, err = a.partitions(layout.Name)
	if err != nil || p.rus != 0 || p.layout != ByDate && p.layout != ByDevice {
		return t, err
	}
	t.defaultIndex, err = p.indexed(ctx, a, l)
	return t, err
}

// indexed returns what a reading is charged on average when every property is indexed, which is what a container does
// that nobody gave an indexing policy.
func (p pass) indexed(ctx context.Context, a *account, l *load) (float64, error) {
	layout := p.layout.container()
	layout.Name, layout.Indexed = "readings-indexed", nil
	if err := a.client.Containers().CreateAs(ctx, layout, store.Throughput{RUs: unlimitedRUs}); err != nil {
		return 0, err
	}
	items := a.client.Items(layout.Name)
	var rus float64
	for range p.cfg.Devices {
		d := p.layout.document(l.take())
		receipt, err := items.Create(ctx, d.key, d.id, d.body)
		if err != nil {
			return 0, err
		}
		rus += receipt.RUs
	}
	return rus / float64(p.cfg.Devices), nil
}

// writer is the client of a layout with a document per reading. What is answered 429 waits in a queue.
type writer struct {
	items   *cosmos.Items
	waiting []document // the longest untried first
	stored  int

	now func() time.Time
	rec *recorder // nil where nothing is recorded
}

// offer records a reading that is due.
func (w *writer) offer(d *document) {
	if w.rec == nil {
		return
	}
	if d.first = epk.Hash(epk.String(d.key[0])); len(d.key) > 1 {
		d.first = epk.MultiHash(epk.String(d.key[0]))
	}
	d.marks = w.rec.mark(tracedWrite{at: d.at, epk: d.first, readings: d.readings}, Refused)
}

// longest returns how long the document waits that waits for longest.
func (w *writer) longest() (d time.Duration) {
	if w.rec == nil {
		return 0
	}
	for i := range w.waiting {
		d = max(d, w.now().Sub(w.waiting[i].at))
	}
	return d
}

// write tries to store a document.
func (w *writer) write(ctx context.Context, d document) error {
	receipt, err := w.items.Create(ctx, d.key, d.id, d.body)
	var answer *cosmos.Error
	switch {
	case err == nil:
		w.stored += d.readings
		fate := StoredAtOnce
		if d.tried {
			fate = StoredLate
		}
		w.rec.write(tracedWrite{w.now(), d.key[0], d.first, receipt.RUs, d.readings})
		w.rec.settle(d.marks, fate)
	case errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests:
		d.tried = true
		w.waiting = append(w.waiting, d)
	default:
		return fmt.Errorf("write a reading of %s: %w", d.id, err)
	}
	return nil
}

// retry tries up to n of the waiting documents again, each once. What is refused again goes to the end.
func (w *writer) retry(ctx context.Context, n int) error {
	n = min(n, len(w.waiting))
	batch := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	for _, d := range batch {
		if err := w.write(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
