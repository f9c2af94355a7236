package decode

import (
	"encoding/binary"
	"errors"
	"math"

	"binnacle/internal/telemetry"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the protobuf fields are from prompb/remote.proto and types.proto (1.0), and from
// prompb/io/prometheus/write/v2/types.proto (2.0).

// staleNaN are the bits of the value by which Prometheus says that a series has ended.
const staleNaN = 0x7ff0000000000002

// metricLabel is the label that holds a series' metric.
const metricLabel = "__name__"

// writes is the state of reading a body of remote write, and the series that are remembered.
type writes struct {
	known   cache[*series]
	symbols [][]byte // the record's
	text    int      // bytes of the labels in the record, written out
	index   int      // index of the series in the record
	pairs   []telemetry.Label
}

// series is what the labels of a series mean.
type series struct {
	tenant, device string
	metric         string
	labels         telemetry.Labels
	fault          *fault
}

// Memory of a symbol, and of a reference to one.
const (
	symbolBytes = 24
	refBytes    = 8
)

// maxLabels bounds what the labels of one series take: a body of version 2.0 says them by reference, and so could say
// very much.
const maxLabels = 1 << 16

// seriesBytes bounds the series that a Decoder remembers: some 30,000.
const seriesBytes = 16 << 20

// writeReader reads bodies of Prometheus remote write.
type writeReader struct {
	*Decoder
	writes   writes
	refs     []uint64
	unpacked []byte
}

func newWriteReader(d *Decoder) reader { return &writeReader{Decoder: d} }

func (d *writeReader) read(r Record, _ map[string]string) { d.remoteWrite(r.Value) }

// write2Reader reads version 2.0.
type write2Reader struct{ *writeReader }

func newWrite2Reader(d *Decoder) reader { return write2Reader{d.readerOf(RemoteWrite).(*writeReader)} }

func (d write2Reader) read(r Record, _ map[string]string) { d.remoteWrite2(r.Value) }

// isRemoteWrite reports whether application/x-protobuf is a body of remote write 1.0 and not of OTLP: only the former
// is always packed.
func isRemoteWrite(headers []Header) bool {
	return header(headers, "content-encoding") == "snappy" || header(headers, "x-prometheus-remote-write-version") != ""
}

func (d *writeReader) remoteWrite(packed []byte) {
	d.write(packed, func(body []byte) error {
		if err := each(body, 1, d.series1); err != nil {
			return err
		}
		return each(body, 3, d.metadata1)
	})
}

func (d *writeReader) remoteWrite2(packed []byte) {
	d.write(packed, func(body []byte) error {
		err := each(body, 4, func(symbol []byte) error {
			d.writes.symbols = append(d.writes.symbols, symbol)
			d.made.add(symbolBytes)
			return d.made.check()
		})
		if err != nil {
			return err
		}
		return each(body, 5, d.series2)
	})
}

func (d *writeReader) write(packed []byte, read func(body []byte) error) {
	w := &d.writes
	if w.known.places == nil {
		w.known = newCache[*series](seriesBytes, setWeight)
	}
	clear(w.symbols)
	w.symbols, w.index, w.text = w.symbols[:0], 0, 0
	d.groups.reset()
	body, f := d.unsnap(packed)
	if f != nil {
		d.refuseRecord(f)
		return
	}
	if err := read(body); err != nil {
		d.refuseRecord(faultf(Undecodable, "not a body of remote write: %v", err))
		return
	}
	d.endGroups()
}

func (d *writeReader) series1(message []byte) error {
	var f protobufField
	labels := span{message: message}
	w := protobufReader{rest: message}
	for w.next(&f) {
		if f.is(1, protowire.BytesType) {
			labels.saw(&w, 1)
		}
	}
	if w.err != nil {
		return w.err
	}
	raw := labels.raw()
	s, _ := d.writes.known.get(raw)
	if s == nil || d.origin.enveloped {
		d.writes.pairs = d.writes.pairs[:0]
		var wrong *fault
		err := each(raw, 1, func(b []byte) error {
			name, value, err := twoFields(b, 1, 2)
			if wrong == nil {
				wrong = d.seriesLabel(name, value)
			}
			return err
		})
		if err != nil {
			return err
		}
		s = d.learnSeries(raw, wrong)
	}
	return d.samples(s, message, 4)
}

// metadata1 reads a MetricMetadata of version 1.0, which names no series: its unit is the default tenant's.
func (d *writeReader) metadata1(message []byte) error {
	name, unit, err := twoFields(message, 2, 5)
	if metric, err := d.metrics.get(name); err == nil && d.origin.tenant != "" {
		d.unit(d.origin.tenant, metric, unit)
	}
	return err
}

// errSymbol is a reference to a symbol that the body's table does not have.
var errSymbol = errors.New("a reference beyond the table of symbols")

func (d *writeReader) series2(message []byte) error {
	var f protobufField
	var unit []byte
	w := protobufReader{rest: message}
	d.refs, d.made.message = d.refs[:0], 0
	for w.next(&f) {
		switch {
		case f.number == 1:
			err := d.made.part(refBytes * len(f.bytes))
			if err == nil {
				d.refs, err = appendVarints(d.refs, &f)
			}
			if err != nil {
				return err
			}
		case f.is(5, protowire.BytesType):
			var m protobufField
			meta := protobufReader{rest: f.bytes}
			for meta.next(&m) {
				if m.is(4, protowire.VarintType) {
					if m.bits >= uint64(len(d.writes.symbols)) {
						return errSymbol
					}
					unit = d.writes.symbols[m.bits]
				}
			}
			if meta.err != nil {
				return meta.err
			}
		}
	}
	if w.err != nil {
		return w.err
	}
	s, err := d.seriesOfSymbols()
	if err != nil {
		return err
	}
	if s.fault == nil {
		d.unit(s.tenant, s.metric, unit)
	}
	return d.samples(s, message, 3)
}

// seriesOfSymbols finds the series with the names and values that d.refs refer to. Tables of symbols differ from record
// to record: the key is the text itself.
func (d *writeReader) seriesOfSymbols() (*series, error) {
	if len(d.refs)%2 != 0 {
		return nil, errSymbol
	}
	symbols := d.writes.symbols
	d.key = append(d.key[:0], 0)
	defer func() { d.writes.text += len(d.key) }()
	if d.writes.text > d.made.most {
		d.made.over = true
		return nil, errTooMuch
	}
	for _, r := range d.refs {
		if r >= uint64(len(symbols)) {
			return nil, errSymbol
		}
		d.key = binary.AppendUvarint(d.key, uint64(len(symbols[r])))
		d.key = append(d.key, symbols[r]...)
		if len(d.key) > maxLabels {
			return &series{fault: faultf(TooLarge, "the labels of a series take more than %d bytes", maxLabels)}, nil
		}
	}
	if s, ok := d.writes.known.get(d.key); ok && !d.origin.enveloped {
		return s, nil
	}
	key := append([]byte(nil), d.key...)
	d.writes.pairs = d.writes.pairs[:0]
	var wrong *fault
	for i := 0; i < len(d.refs) && wrong == nil; i += 2 {
		wrong = d.seriesLabel(symbols[d.refs[i]], symbols[d.refs[i+1]])
	}
	return d.learnSeries(key, wrong), nil
}

func appendVarints(to []uint64, f *protobufField) ([]uint64, error) {
	if f.kind == protowire.VarintType {
		return append(to, f.bits), nil
	}
	for b := f.bytes; len(b) > 0; {
		u, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return to, errProtobuf
		}
		to, b = append(to, u), b[n:]
	}
	return to, nil
}

func (d *writeReader) seriesLabel(name, value []byte) *fault {
	n, err := d.labelNames.get(name)
	if err != nil {
		return faultf(Name, "%v", err)
	}
	v, err := d.checked.get(value)
	if err != nil {
		return faultf(Label, "the label %q: %v", n, err)
	}
	d.writes.pairs = append(d.writes.pairs, telemetry.Label{Name: n, Value: v})
	return nil
}

// learnSeries finds out what the labels in writes.pairs mean, and remembers it under the key.
func (d *writeReader) learnSeries(key []byte, wrong *fault) *series {
	s := &series{fault: wrong}
	if wrong == nil {
		s.fault = d.describeSeries(s)
	}
	if len(key) <= maxResource && !d.origin.enveloped {
		d.writes.known.put(string(key), s)
	}
	return s
}

func (d *writeReader) describeSeries(s *series) *fault {
	pairs, names := d.writes.pairs, d.opts.Series
	if name := d.repeated(pairs); name != "" {
		return faultf(Label, "the label %q occurs twice in a series", name)
	}
	from, f := d.senderAmong(pairs, naming{"the series", "labels", names.Tenant, names.Device})
	if f != nil {
		return f
	}
	s.tenant, s.device = from.tenant, from.device
	metric := ""
	d.pairs = d.pairs[:0]
	for i, p := range pairs {
		switch {
		case p.Name == metricLabel:
			metric = p.Value
		case !from.isNamedBy(i):
			d.pairs = append(d.pairs, p)
		}
	}
	var err error
	if s.metric, err = d.metrics.get([]byte(metric)); err != nil {
		return faultf(Name, "%v", err)
	}
	s.labels, f = d.labelSets.labels(d.pairs, &d.key)
	return f
}

// samples adds the samples of a series, and its native histograms, which have the given number.
func (d *writeReader) samples(s *series, message []byte, histograms protowire.Number) error {
	if err := d.made.check(); err != nil {
		return err
	}
	w := &d.writes
	index := w.index
	w.index++
	if s.fault != nil {
		d.addBad(index, s.fault)
		return nil
	}
	source, _ := d.groups.sender(s.tenant, s.device)
	from := pointSource{index: index, source: source, sender: source}
	r := telemetry.Reading{Tenant: s.tenant, Device: s.device, Labels: s.labels}
	var f protobufField
	walk := protobufReader{rest: message}
	for walk.next(&f) {
		switch {
		case f.is(2, protowire.BytesType):
			at, bits, err := sample(f.bytes)
			if err != nil {
				return err
			}
			if bits == staleNaN {
				continue
			}
			r.Time = at
			v := telemetry.BitsValue(telemetry.Float, bits)
			d.group(from, &r, telemetry.Field{Metric: s.metric, Value: v})
			if err := d.made.check(); err != nil {
				return err
			}
		case f.is(histograms, protowire.BytesType):
			if err := d.nativeHistogram(from, s, f.bytes); err != nil {
				return err
			}
		}
	}
	return walk.err
}

// sample reads a Sample: milliseconds and the bits of a float64. What is zero is not written.
func sample(message []byte) (at int64, bits uint64, err error) {
	var f protobufField
	w := protobufReader{rest: message}
	for w.next(&f) {
		switch {
		case f.is(1, protowire.Fixed64Type):
			bits = f.bits
		case f.is(2, protowire.VarintType):
			at = int64(f.bits)
		}
	}
	return at, bits, w.err
}

// nativeHistogram adds of a Histogram how many values it counted and what they add up to.
func (d *writeReader) nativeHistogram(from pointSource, s *series, message []byte) error {
	r := telemetry.Reading{Tenant: s.tenant, Device: s.device, Labels: s.labels}
	count, sum := telemetry.IntValue(0), telemetry.FloatValue(0)
	var f protobufField
	w := protobufReader{rest: message}
	for w.next(&f) {
		switch {
		case f.is(1, protowire.VarintType):
			count = telemetry.IntValue(int64(f.bits))
		case f.is(2, protowire.Fixed64Type):
			count = telemetry.FloatValue(math.Float64frombits(f.bits))
		case f.is(3, protowire.Fixed64Type):
			sum = telemetry.BitsValue(telemetry.Float, f.bits)
		case f.is(15, protowire.VarintType):
			r.Time = int64(f.bits)
		}
	}
	switch {
	case w.err != nil || sum.Bits() == staleNaN:
		return w.err
	case count.Kind() == telemetry.Int && count.Int() < 0:
		d.addBad(from.index, faultf(Value, "the count of %q is beyond int64", s.metric))
		return nil
	}
	for _, x := range [...]struct {
		place int
		value telemetry.Value
	}{{countName, count}, {sumName, sum}} {
		d.key = append(append(d.key[:0], s.metric...), suffixes[x.place]...)
		name, err := d.metrics.get(d.key)
		if err != nil {
			d.addBad(from.index, faultf(Name, "%v", err))
			return nil
		}
		d.group(from, &r, telemetry.Field{Metric: name, Value: x.value})
	}
	return nil
}

// maxUnpacked bounds what a packed payload may become.
const maxUnpacked = 16 << 20

// unsnap unpacks a block of snappy. What it returns is overwritten by the next call. A copy of 64 bytes takes at
// least 3, so that more than 22 times the size is no block, and a small payload can't reserve much memory.
func (d *writeReader) unsnap(packed []byte) ([]byte, *fault) {
	size, err := s2.DecodedLen(packed)
	if err != nil || size > 22*len(packed) {
		return nil, faultf(Undecodable, "not a snappy block")
	}
	if size > maxUnpacked {
		return nil, faultf(TooLarge, "the payload unpacks to %d bytes, more than %d", size, maxUnpacked)
	}
	if d.made.work(size); cap(d.unpacked) > 64*maxKept {
		d.unpacked = nil
	}
	if cap(d.unpacked) < size {
		d.unpacked = make([]byte, size)
	}
	out, err := s2.Decode(d.unpacked[:size], packed)
	if err != nil {
		return nil, faultf(Undecodable, "not a snappy block: %v", err)
	}
	return out, nil
}
