package decode

import (
	"cmp"
	"slices"

	"binnacle/internal/telemetry"
)

// fields collects the values of the reading that is read, and sorts those of all readings. Readings of one kind follow
// one another: a value goes to its sorted place at once while the names come as in a reading before.
type fields struct {
	count  int               // values of the current reading so far
	nulls  bool              // it has nulls, too
	came   []telemetry.Field // the current reading's as they came, where they come in another order than expected
	sorted []telemetry.Field // all readings'
	begin  int               // place of the current reading's in sorted
	order  order             // the expected order, nil where it is not kept
	orders []order           // the last one that was kept comes first
}

// order is how fields were sorted, as they came.
type order []ranked

// ranked is a name, and the sorted place of its field.
type ranked struct {
	name string
	rank int
}

const (
	maxOrders  = 8
	maxOrdered = 1 << 10 // names of an order
)

func (d *fields) start() {
	d.count, d.nulls, d.came, d.begin, d.order = 0, false, d.came[:0], len(d.sorted), nil
	if len(d.orders) > 0 {
		d.order = d.orders[0]
		d.sorted = slices.Grow(d.sorted, len(d.order))[:d.begin+len(d.order)]
	}
}

// drop drops the values of the current reading.
func (d *fields) drop() {
	d.sorted = d.sorted[:d.begin]
	d.start()
}

// next returns where the next value of the current reading goes, with its metric.
func (d *fields) next(metric string) *telemetry.Field {
	k := d.count
	d.count++
	if k < len(d.order) && d.order[k].name == metric {
		return &d.sorted[d.begin+d.order[k].rank]
	}
	return d.other(k, metric)
}

// other returns where a value goes that is not the expected one, after the first k values.
func (d *fields) other(k int, metric string) *telemetry.Field {
	if d.order != nil {
		for _, x := range d.order[:k] {
			d.came = append(d.came, d.sorted[d.begin+x.rank])
		}
		d.order, d.sorted = nil, d.sorted[:d.begin]
	}
	d.came = append(d.came, telemetry.Field{Metric: metric})
	return &d.came[len(d.came)-1]
}

// end returns the current reading's fields, sorted by metric. Of several of a metric it keeps the last one, and returns
// a metric that has two values, empty if none has.
func (d *fields) end() (sorted []telemetry.Field, ambiguous string) {
	switch {
	case d.order == nil:
	case d.count == len(d.order):
		return d.sorted[d.begin:len(d.sorted):len(d.sorted)], ""
	default:
		d.other(d.count, "")
		d.came = d.came[:d.count]
	}
	return d.sort(d.came)
}

// sort does what end does for any fields.
func (d *fields) sort(f []telemetry.Field) (sorted []telemetry.Field, ambiguous string) {
	begin := len(d.sorted)
	i := slices.IndexFunc(d.orders, func(o order) bool { return slices.EqualFunc(o, f, isOf) })
	if i >= 0 {
		o := d.orders[i]
		d.orders[0], d.orders[i] = o, d.orders[0]
		d.sorted = slices.Grow(d.sorted, len(f))[:begin+len(f)]
		for at, x := range o {
			d.sorted[begin+x.rank] = f[at]
		}
		return d.sorted[begin:len(d.sorted):len(d.sorted)], ""
	}
	d.sorted = append(d.sorted, f...)
	sorted, ambiguous = sortFields(d.sorted[begin:])
	if d.sorted = d.sorted[:begin+len(sorted)]; len(sorted) == len(f) && len(f) > 0 && len(f) <= maxOrdered {
		d.learn(f, sorted)
	}
	return sorted[:len(sorted):len(sorted)], ambiguous
}

func isOf(x ranked, f telemetry.Field) bool { return x.name == f.Metric }

// learn remembers how fields, all different, were sorted.
func (d *fields) learn(f, sorted []telemetry.Field) {
	if len(d.orders) < maxOrders {
		d.orders = append(d.orders, nil)
	}
	o := d.orders[len(d.orders)-1][:0]
	for i := range f {
		rank, _ := slices.BinarySearchFunc(sorted, f[i].Metric, func(f telemetry.Field, metric string) int {
			return cmp.Compare(f.Metric, metric)
		})
		o = append(o, ranked{f[i].Metric, rank})
	}
	d.orders[len(d.orders)-1] = o
}

// sortFields sorts fields by metric, and keeps the last one of every metric. It returns a metric that has two values,
// empty if none has.
func sortFields(f []telemetry.Field) (sorted []telemetry.Field, ambiguous string) {
	slices.SortStableFunc(f, func(a, b telemetry.Field) int { return cmp.Compare(a.Metric, b.Metric) })
	out := f[:0]
	for i, x := range f {
		if i+1 < len(f) && f[i+1].Metric == x.Metric {
			if f[i+1].Value != x.Value {
				ambiguous = x.Metric
			}
			continue
		}
		out = append(out, x)
	}
	return out, ambiguous
}

func (d *fields) has(metric string) bool {
	if d.order != nil {
		return slices.ContainsFunc(d.order[:d.count], func(x ranked) bool { return x.name == metric })
	}
	return slices.ContainsFunc(d.came, func(f telemetry.Field) bool { return f.Metric == metric })
}

// put adds a value to the current reading; null is none.
func (d *Decoder) put(metric string, v telemetry.Value) {
	if v.Kind() == 0 {
		d.fields.nulls = true
		return
	}
	f := d.fields.next(metric)
	f.Metric, f.Value = metric, v
}

// release gives back memory.
func (d *fields) release() { *d = fields{orders: d.orders} }
