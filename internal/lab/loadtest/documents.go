package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/sharding"
	"binnacle/sharding/epk"
)

// container returns how a layout is keyed and indexed: by its key and by what a reader looks for, and nothing else, as
// Binnacle's chunks are.
func (l Layout) container() cosmos.Layout {
	out := cosmos.Layout{Name: "readings", Key: l.kind().key, Indexed: []string{"/tenant", "/device", "/ts"}}
	if l.chunked() {
		out.Indexed = []string{"/tenantShard", "/device", "/from", "/to"}
	}
	for _, path := range out.Key {
		if !slices.Contains(out.Indexed, path) {
			out.Indexed = append([]string{path}, out.Indexed...)
		}
	}
	return out
}

// document is a document to store: a message itself, with an id, or several messages.
type document struct {
	key  []string
	id   string
	body []byte

	// due is when the newest reading was published.
	due      time.Time
	readings int
	epk      string // effective partition key
	// marks bounds the marks of its readings: from the first until before the second.
	marks [2]int
	tried bool
}

func (d *document) hash() string {
	if len(d.key) > 1 {
		return epk.MultiHash(epk.String(d.key[0]), epk.String(d.key[1]))
	}
	return epk.Hash(epk.String(d.key[0]))
}

func (l Layout) document(m message) document {
	d := document{key: l.keyOf(keyed{tenant: m.tenant, device: m.device, at: m.at}),
		id: m.device + "." + strconv.FormatInt(m.at.UnixMilli(), 10), due: m.due, readings: 1}
	d.body = append(make([]byte, 0, len(m.json)+64), `{"id":"`+d.id+`",`...)
	for i, path := range l.kind().key {
		if path != "/device" && path != "/tenant" {
			d.body = append(d.body, `"`+path[1:]+`":"`+d.key[i]+`",`...)
		}
	}
	d.body = append(d.body, m.json[1:]...)
	return d
}

// source returns what a layout is to store.
type source struct {
	layout Layout
	load   *load
	bins   jsonBins
}

// until calls yield with each document that is due before an instant.
func (s *source) until(end time.Time, yield func(document) error) error {
	for s.load.due().Before(end) {
		m := s.load.take()
		if s.layout != Hundred {
			if err := yield(s.layout.document(m)); err != nil {
				return err
			}
		} else if d, full := s.bins.add(m); full {
			if err := yield(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle leaves out what comes before an instant, but for bins, which have to settle.
func (s *source) settle(until time.Time, jump bool) error {
	if s.layout == Hundred {
		return s.until(until, func(document) error { return nil })
	}
	for !jump && s.load.due().Before(until) {
		s.load.skip()
	}
	s.load.jump(until)
	return nil
}

// documents stores what the layout makes of the readings. Fleet time goes second by second: each begins with new
// attempts at what was answered 429 before, then comes what is due in the second.
func (p pass) documents(ctx context.Context, a *account) (t totals, err error) {
	layout := p.layout.container()
	if err := a.client.Containers().CreateAs(ctx, layout, store.Throughput{RUs: p.throughput()}); err != nil {
		return totals{}, err
	}
	spans := p.cfg.spans(p.layout)
	l := newLoad(p.cfg, p.scenario)
	for _, s := range spans {
		t.seconds += s.to.Sub(s.from).Seconds()
		t.offered += l.between(s.from, s.to)
	}
	rec, err := newRecorder(p, spans, func() ([]emulator.PartitionStats, error) { return a.partitions(layout.Name) })
	if err != nil {
		return totals{}, err
	}
	rec.offered(l)
	w := writer{items: a.client.Items(layout.Name), clock: a.clock, rec: rec}
	from := source{layout: p.layout, load: l, bins: newJSONBins(p.cfg)}
	for _, s := range spans {
		if err := from.settle(s.from, p.cfg.sliced); err != nil {
			return totals{}, err
		}
		w.waiting = nil // between spans there is time enough for what waits, and it is not measured
		if err := p.during(ctx, s, &from, &w); err != nil {
			return totals{}, err
		}
	}
	t.stored = w.stored
	if t.trace, err = rec.end(); err != nil {
		return t, err
	}
	if t.partitions, err = a.partitions(layout.Name); err != nil {
		return t, err
	}
	t.calm = a.calm(t.partitions)
	return t, nil
}

func (p pass) during(ctx context.Context, s stretch, from *source, w *writer) error {
	again := int(math.Ceil(p.cfg.perSecond()))
	for at := s.from; at.Before(s.to); at = at.Add(time.Second) {
		w.clock.reach(at)
		if err := w.rec.advance(at); err != nil {
			return err
		}
		if err := w.retry(ctx, again); err != nil {
			return err
		}
		err := from.until(at.Add(time.Second), func(d document) error {
			w.clock.reach(d.due)
			w.offer(&d)
			return w.write(ctx, d)
		})
		if err != nil {
			return err
		}
		w.rec.waited(at, w.longest())
	}
	return nil
}

// writer is the client of a layout with a document per reading. What is answered 429 waits in a queue.
type writer struct {
	items   *cosmos.Items
	waiting []document // the longest untried first
	stored  int

	clock *clock
	rec   *recorder
}

func (w *writer) offer(d *document) {
	d.epk = d.hash()
	d.marks = w.rec.mark(tracedWrite{at: d.due, epk: d.epk, readings: d.readings}, Refused)
}

// longest returns how long the document waits that waits for longest.
func (w *writer) longest() (d time.Duration) {
	for i := range w.waiting {
		d = max(d, w.clock.now().Sub(w.waiting[i].due))
	}
	return d
}

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
		w.rec.write(tracedWrite{w.clock.now(), d.key[0], d.epk, receipt.RUs, d.readings})
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

// jsonBins is what the guidance calls binning: the readings of a device wait in memory until there are 100 of them,
// which are written as one document of JSON. There is no journal.
type jsonBins struct {
	size int
	open map[string]*jsonBin
}

type jsonBin struct {
	id       string
	body     []byte
	readings int
	room     int // for further readings
}

// hundred is how many readings a document has, unless a hold has fewer.
const hundred = 100

func newJSONBins(cfg Config) jsonBins {
	return jsonBins{max(1, min(hundred, int(cfg.Hold/cfg.Interval))), map[string]*jsonBin{}}
}

// add returns the document that a reading fills. The first document of a device is shorter, by the device's hash, so
// that documents come evenly.
func (b jsonBins) add(m message) (d document, full bool) {
	bin := b.open[m.device]
	if bin == nil {
		bin = &jsonBin{room: b.size - sharding.GroupOf(m.device, b.size)}
		b.open[m.device] = bin
	}
	if bin.readings == 0 {
		at := strconv.FormatInt(m.at.UnixMilli(), 10)
		bin.id = m.device + "." + at
		bin.body = append(bin.body, `{"id":"`+bin.id+`","tenant":"`+m.tenant+`","device":"`+m.device+`","ts":`+at+
			`,"readings":[`...)
	} else {
		bin.body = append(bin.body, ',')
	}
	bin.body = append(append(bin.body, '{'), m.json[bytes.Index(m.json, []byte(`"ts":`)):]...)
	if bin.readings++; bin.readings < bin.room {
		return document{}, false
	}
	b.open[m.device] = &jsonBin{room: b.size}
	return document{key: []string{m.tenant, m.device}, id: bin.id, body: append(bin.body, "]}"...), due: m.due,
		readings: bin.readings}, true
}
