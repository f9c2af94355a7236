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
	"binnacle/internal/store"
)

// container returns how a layout with a document per reading is keyed and indexed: by its key and by what a reader
// looks for, and nothing else, as Binnacle's chunks are.
func (l Layout) container() cosmos.Layout {
	if l == ByDate {
		return cosmos.Layout{Name: "readings", Key: []string{"/date"},
			Indexed: []string{"/date", "/tenant", "/device", "/ts"}}
	}
	return cosmos.Layout{Name: "readings", Key: []string{"/tenant", "/device"},
		Indexed: []string{"/tenant", "/device", "/ts"}}
}

// document is a reading that is to be stored: the message itself, with an id.
type document struct {
	key  []string
	id   string
	body []byte
}

func (l Layout) document(m message) document {
	d := document{key: []string{m.tenant, m.device}, id: m.device + "." + strconv.FormatInt(m.at.UnixMilli(), 10)}
	d.body = append(make([]byte, 0, len(m.json)+64), `{"id":"`+d.id+`",`...)
	if l == ByDate {
		date := m.at.Format(time.DateOnly)
		d.key = []string{date}
		d.body = append(d.body, `"date":"`+date+`",`...)
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
	w := writer{items: a.client.Items(layout.Name)}
	l := newLoad(p.cfg, p.scenario, p.metrics)
	for l.due().Before(p.cfg.opens()) { // only Binnacle has to settle
		l.skip()
	}
	again := int(math.Ceil(p.cfg.perSecond()))
	closes := p.cfg.opens().Add(p.cfg.measured(p.layout))
	for at := p.cfg.opens(); at.Before(closes); at = at.Add(time.Second) {
		a.clock.reach(at)
		if err := w.retry(ctx, again); err != nil {
			return totals{}, err
		}
		for l.due().Before(at.Add(time.Second)) {
			m := l.take()
			a.clock.reach(m.at)
			if err := w.write(ctx, p.layout.document(m)); err != nil {
				return totals{}, err
			}
		}
		p.tick()
	}
	t := newTotals(l, p.cfg.opens(), closes)
	t.stored = w.stored
	var err error
	if t.partitions, err = a.partitions(layout.Name); err != nil || p.rus != 0 {
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
}

// write tries to store a document.
func (w *writer) write(ctx context.Context, d document) error {
	_, err := w.items.Create(ctx, d.key, d.id, d.body)
	var answer *cosmos.Error
	switch {
	case err == nil:
		w.stored++
	case errors.As(err, &answer) && answer.Status == http.StatusTooManyRequests:
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
