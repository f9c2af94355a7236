package planner

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// kinds are what metrics of a fleet may be; truck is what a simulated truck of the load test reports, ten at most.
var kinds = []string{"bool", "counter", "gauge", "state", "text", "truck"}

// A sample has samples devices, each with at most maxReadings readings.
const (
	samples     = 5
	maxReadings = 86_400
)

// encoded is what a device of a fleet comes to, in three models: chunks, a document per reading, and documents of a
// hundred readings. It is measured by encoding readings, and request units are modelled.
type encoded struct {
	readings, values float64 // a day

	chunks, bytes, rus float64 // a day
	overhead           float64 // bytes of a chunk without values
	single             float64 // bytes of a document per reading
	// singleRUs is the charge of a document with one reading.
	singleRUs           float64
	hundred, hundredRUs float64 // bytes and RU of a document of many readings
	perHundred          float64 // readings in it
}

func (e *encoded) fields() []*float64 {
	return []*float64{&e.readings, &e.values, &e.chunks, &e.bytes, &e.rus, &e.overhead, &e.single,
		&e.singleRUs, &e.hundred, &e.hundredRUs, &e.perHundred}
}

// between interpolates the figures of two places, or extrapolates them.
func between(a, b encoded, place float64) encoded {
	x, y := a.fields(), b.fields()
	out := a
	for i, f := range out.fields() {
		if *x[i] > 0 && *y[i] > 0 {
			*f = *x[i] * math.Pow(*y[i] / *x[i], place)
		}
	}
	return out
}

// surface is what a device comes to with an interval and numbers of metrics at the low end, in the middle and at the
// high end of what is given.
type surface struct {
	by [3][3]encoded // indices: interval, metrics
	// shares lists the metrics of the middle with their parts of a device's bytes.
	shares []MetricStore
}

// at returns what a device comes to at places from -1 to 1, or beyond.
func (s *surface) at(interval, metrics float64) encoded {
	line := func(row *[3]encoded) encoded { return along(row, metrics) }
	return along(&[3]encoded{line(&s.by[0]), line(&s.by[1]), line(&s.by[2])}, interval)
}

func along(row *[3]encoded, place float64) encoded {
	if place < 0 {
		return between(row[1], row[0], -place)
	}
	return between(row[1], row[2], place)
}

// encode measures a fleet. It adds a few of the chunks to documents.
func (w *Workload) encode(f *Fleet, documents *[]string) (*surface, error) {
	var s surface
	if f.Sample != nil {
		of, err := w.encodeFile(f)
		if err != nil {
			return nil, err
		}
		e := of.result()
		s.by = [3][3]encoded{{e, e, e}, {e, e, e}, {e, e, e}}
		*documents, s.shares = of.documents, of.shares(nil)
		return &s, nil
	}
	certain := true
	for _, q := range f.Metrics {
		certain = certain && q.Low == q.High
	}
	for i := range s.by {
		for j := range s.by[i] {
			switch {
			case i > 0 && f.Interval.Low == f.Interval.High:
				s.by[i][j] = s.by[0][j]
				continue
			case j > 0 && certain:
				s.by[i][j] = s.by[i][0]
				continue
			}
			made := synthetic{interval: time.Duration(f.Interval.at(float64(i-1)) * float64(time.Second))}
			for _, kind := range kinds {
				for n := range int(math.Round(f.Metrics[kind].at(float64(j - 1)))) {
					made.kinds = append(made.kinds, kind)
					made.names = append(made.names, kind+"_"+strconv.Itoa(n))
				}
			}
			if f.Interval.Low == 0 && i == 0 {
				return nil, fmt.Errorf("fleet %s: an interval of 0", f.Name)
			}
			of := w.sampled(made, 1)
			if f.Bytes.Basis != "" {
				of = w.sampled(made, f.Bytes.High*of.sum.values/max(1, of.sum.bytes-of.sum.overhead))
			}
			s.by[i][j] = of.result()
			if i <= 1 && j <= 1 {
				*documents, s.shares = of.documents, of.shares(kinds)
			}
		}
	}
	return &s, nil
}

// sampled bins and encodes devices. Their values take scale times what they are encoded to.
func (w *Workload) sampled(made synthetic, scale float64) *sampler {
	of := &sampler{hold: w.hold(), interval: made.interval, scale: scale, ttl: w.ttl()}
	for device := range min(samples, max(1, int(made.interval/(2*time.Second)))) {
		of.device(device, made.each)
	}
	return of
}

// ttl returns the time to live of a chunk that is stored at the end of its day, in seconds.
func (w *Workload) ttl() int { return int(w.Retention.High) }

func (w *Workload) hold() time.Duration { return time.Duration(w.Hold.High * float64(time.Second)) }

// start is the day before the one that is measured.
var start = telemetry.DayOf(time.Date(2026, time.November, 2, 0, 0, 0, 0, time.UTC).UnixMilli())

// synthetic is the readings of a device by the kinds of its metrics.
type synthetic struct {
	interval     time.Duration
	kinds, names []string
}

// each calls yield with readings around a midnight: of a day, or maxReadings, to either side.
func (s synthetic) each(device int, yield func(telemetry.Reading)) {
	r := rand.New(rand.NewPCG(uint64(device), 21))
	begin := time.UnixMilli(start.End()).Add(-time.Duration(s.perDay()) * s.interval).
		Add(time.Duration(device) * s.interval / samples)
	truck := fleet.NewTruck(1, device, begin)
	state := make([]float64, len(s.kinds))
	for n, end := 0, 2*s.perDay(); n < end; n++ {
		at := begin.Add(time.Duration(n) * s.interval)
		out := telemetry.Reading{Tenant: "tenant", Device: truck.ID(), Time: at.UnixMilli()}
		var ofTruck []telemetry.Field
		for i, kind := range s.kinds {
			if kind == "truck" {
				if ofTruck == nil {
					ofTruck = truck.Next(at)
				}
				out.Fields = append(out.Fields, ofTruck[0])
				ofTruck = ofTruck[1:]
				continue
			}
			out.Fields = append(out.Fields, telemetry.Field{Metric: s.names[i], Value: next(r, kind, &state[i])})
		}
		slices.SortFunc(out.Fields, func(a, b telemetry.Field) int { return strings.Compare(a.Metric, b.Metric) })
		yield(out)
	}
}

func (s synthetic) perDay() int { return max(1, min(maxReadings, int(24*time.Hour/s.interval))) }

// next returns the next value of a metric: a walk of one decimal, a count, a few states that last, or texts of them.
func next(r *rand.Rand, kind string, at *float64) telemetry.Value {
	switch kind {
	case "counter":
		*at += float64(r.IntN(20))
		return telemetry.IntValue(int64(*at))
	case "gauge":
		*at += r.NormFloat64()
		return telemetry.FloatValue(math.Round(*at*10) / 10)
	}
	if r.IntN(20) == 0 {
		*at = float64(r.IntN(5))
	}
	switch kind {
	case "bool":
		return telemetry.BoolValue(*at >= 3)
	case "text":
		return telemetry.TextValue("state of device " + strconv.Itoa(int(*at)))
	}
	return telemetry.IntValue(int64(*at))
}

// encodeFile measures the devices of a file. It repeats their readings until a day is full.
func (w *Workload) encodeFile(f *Fleet) (*sampler, error) {
	devices, err := w.readings(f.Sample)
	if err != nil {
		return nil, fmt.Errorf("fleet %s: read the sample: %w", f.Name, err)
	}
	of := &sampler{hold: w.hold(), scale: 1, ttl: w.ttl()}
	for n, readings := range devices {
		first, last := readings[0].Time, readings[len(readings)-1].Time
		step := max(1, (last-first)/int64(max(1, len(readings)-1)))
		of.interval += time.Duration(step) * time.Millisecond / time.Duration(len(devices))
		of.device(n, func(_ int, yield func(telemetry.Reading)) {
			for from := start.Start(); from < start.Start()+2*telemetry.DayMillis; from += last - first + step {
				for _, r := range readings {
					if r.Time += from - first; r.Time < start.Start()+2*telemetry.DayMillis {
						yield(r)
					}
				}
			}
		})
	}
	if of.sum.chunks == 0 {
		return nil, fmt.Errorf("fleet %s: no reading of %s fits a document", f.Name, f.Sample.File)
	}
	return of, nil
}

// readings returns the readings of the first devices of a sample, by device and time.
func (w *Workload) readings(s *Sample) ([][]telemetry.Reading, error) {
	file, err := os.Open(filepath.Join(w.folder, s.File))
	if filepath.IsAbs(s.File) {
		file, err = os.Open(s.File)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(s.File, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, 64<<20))
	if err != nil {
		return nil, err
	}
	decoder := decode.New(decode.Options{Format: "influx", Tenant: "tenant",
		Lines: decode.Lines{DeviceTag: s.DeviceTag, Tags: s.Tags}})
	var names []string
	all := map[string][]telemetry.Reading{}
	for line := range strings.Lines(string(text)) {
		for _, r := range decoder.Decode(decode.Record{Value: []byte(line)}).Readings {
			if all[r.Device] == nil && len(names) < samples {
				names, all[r.Device] = append(names, r.Device), []telemetry.Reading{}
			}
			if all[r.Device] != nil {
				r.Fields = slices.Clone(r.Fields)
				all[r.Device] = append(all[r.Device], r)
			}
		}
	}
	var out [][]telemetry.Reading
	for _, name := range names {
		if readings := all[name]; len(readings) > 1 {
			slices.SortStableFunc(readings, func(a, b telemetry.Reading) int { return int(a.Time - b.Time) })
			out = append(out, readings)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no device with two readings and the tag %q", s.File, s.DeviceTag)
	}
	return out, nil
}

// sampler bins readings of devices as an ingester does, and sums up the results of the second day's readings.
type sampler struct {
	hold, interval time.Duration
	// ttl is the documents' time to live, in seconds.
	ttl int
	// scale is the size of values over their encoded size.
	scale   float64
	devices int
	// span is the time that each device's readings cover, in days.
	span      float64
	sum       encoded
	documents []string // the first ones

	sizer  binning.Sizer
	bin    binning.Bin
	names  *binning.Names
	id     string
	day    telemetry.Day
	begun  bool // a bin of the day
	trial  int
	due    int64
	number uint32
	offset int64
	// json is the open document of many readings.
	json   []byte
	inJSON int
	jsons  float64
}

// systemBytes is the size of a JSON document's ids and key, without its readings.
const systemBytes = 60

// device bins the readings of a device. Those of the first half teach sizes, the others count.
func (s *sampler) device(n int, each func(int, func(telemetry.Reading))) {
	s.devices++
	s.sizer, s.names, s.offset, s.trial, s.due, s.json, s.inJSON = binning.Sizer{}, binning.NewNames(), 0, 0, 0, nil, 0
	s.day = 0
	s.bin = binning.NewBin(s.names)
	s.span = min(1, float64(s.interval*maxReadings)/float64(24*time.Hour))
	if s.interval > 24*time.Hour { // the one counted reading covers several days
		s.span = float64(s.interval) / float64(24*time.Hour)
	}
	each(n, func(r telemetry.Reading) { s.take(r, r.Time >= start.End()) })
	s.cut(true, true)
}

// BytesPerValue returns what the values of a device's readings take in chunks, without what each document takes.
func BytesPerValue(readings []telemetry.Reading) (bytes, values float64) {
	s := sampler{hold: 24 * time.Hour, scale: 1, ttl: 86400, names: binning.NewNames()}
	s.bin = binning.NewBin(s.names)
	for _, r := range readings {
		if telemetry.DayOf(r.Time) != s.day {
			s.cut(true, true)
		}
		s.take(r, true)
	}
	s.cut(true, true)
	return s.sum.bytes - s.sum.overhead, s.sum.values
}

func (s *sampler) take(r telemetry.Reading, counted bool) {
	if day := telemetry.DayOf(r.Time); day != s.day {
		s.cut(false, true) // readings of the first day
		s.day, s.begun = day, false
	} else if s.bin.Readings() > 0 && r.Time >= s.due {
		s.cut(counted, true)
	}
	if s.bin.Readings() == 0 {
		s.due = math.MaxInt64
		if s.hold < bins.LongHold {
			hold := s.hold
			if !s.begun { // the first bin of a day's chain has another hold
				hold = binning.FirstHold(r.Device, s.hold)
			}
			s.due, s.begun = r.Time+hold.Milliseconds(), true
		}
	}
	s.id = r.Device
	s.bin.Append(s.offset, r)
	s.offset++
	if counted {
		s.count(r)
	}
	values, width := s.bin.Values(), s.bin.Width()
	if values < s.trial || !s.sizer.Full(values, width) {
		return
	}
	if from, to := s.bin.Span(); s.hold >= bins.LongHold && to > from {
		grown := float64(s.day.End()-from) / float64(to-from)
		if s.sizer.FitsOne(int(grown*float64(values)), width) {
			s.trial = values + values/16
			return
		}
	}
	s.cut(counted, false)
}

// cut encodes the bin: all of it, or what fills documents.
func (s *sampler) cut(counted, all bool) {
	s.trial = 0
	for s.bin.Readings() > 0 {
		rows, rest := s.bin, binning.NewBin(s.names)
		width := rows.Width()
		if n := s.sizer.ReadingsFor(rows.Readings(), rows.Values(), width); n < rows.Readings() {
			rows, rest, _ = s.bin.SplitAt(n, binning.NewSchemas())
		}
		doc, overhead, data := s.encode(&rows)
		size := overhead + int(s.scale*float64(data))
		if doc != nil {
			s.sizer.Observe(binning.Measured{Values: rows.Values(), Columns: width, Bytes: size, Overhead: overhead})
		}
		if counted && doc != nil {
			s.sum.chunks++
			s.sum.bytes += float64(size)
			s.sum.rus += chunkWrite(float64(size))
			s.sum.overhead += float64(overhead)
			if len(s.documents) < 5 {
				s.documents = append(s.documents, string(doc))
			}
		}
		s.bin = rest
		if !all && !s.sizer.Full(rest.Values(), rest.Width()) {
			break
		}
	}
}

// encode returns a document of rows, its bytes that do not depend on their number, and the bytes of their values. Where
// values are to take less than they are encoded to, rows of one document may need several: doc is the first of those.
// What fits no document, which an ingester refuses, is left out; doc is nil when that is all.
func (s *sampler) encode(rows *binning.Bin) (doc []byte, overhead, data int) {
	frame, err := rows.Frame(binning.Selection{Above: -1, Below: math.MaxInt64, Span: binning.All})
	if err == nil {
		doc, err = chunk.Encode(chunk.Header{
			ID: chunk.ID{Day: s.day, Stream: 1, Number: s.number + 1}, Device: s.id,
			TenantShard: sharding.Shard("tenant", sharding.Spread("tenant", sharding.DefaultSlots)[0]), Cut: s.day.End(),
			Readings: rows.Readings(), First: rows.First(), Through: rows.Through(), After: -1, TTL: s.ttl,
		}, frame)
	}
	if err == nil {
		s.number++
		overhead, _ = chunk.Overhead(doc)
		return doc, overhead, len(doc) - overhead
	}
	if rows.First() == rows.Through() {
		return nil, 0, 0
	}
	first, second, err := rows.SplitAt(rows.Readings()/2, binning.NewSchemas())
	if err != nil {
		return nil, 0, 0
	}
	doc, overhead, data = s.encode(&first)
	more, also, rest := s.encode(&second)
	if doc == nil {
		doc = more
	}
	return doc, max(overhead, also), data + rest
}

// count adds a reading to the documents of the other models.
func (s *sampler) count(r telemetry.Reading) {
	s.sum.readings++
	s.sum.values += float64(len(r.Fields))
	text := decode.AppendJSON(nil, r)
	bytes := float64(len(text) + len(r.Device) + 22)
	s.sum.single += bytes
	s.sum.singleRUs += readingWrite(bytes)
	s.json = append(s.json, text[min(len(text), len(r.Tenant)+len(r.Device)+24):]...)
	if s.inJSON++; s.inJSON >= s.most() {
		s.sum.hundred += float64(len(s.json) + systemBytes)
		s.sum.hundredRUs += readingWrite(float64(len(s.json) + systemBytes))
		s.sum.perHundred += float64(s.inJSON)
		s.jsons++
		s.json, s.inJSON = s.json[:0], 0
	}
}

// most returns the number of readings in a JSON document: a hundred, or the readings of a hold where a hold has
// fewer.
func (s *sampler) most() int {
	if s.interval == 0 {
		return 100
	}
	return max(1, min(100, int(s.hold/s.interval)))
}

// result returns the figures of a device and a day, and of a document.
func (s *sampler) result() encoded {
	e := s.sum
	e.overhead /= max(1, e.chunks)
	e.single /= max(1, e.readings)
	e.singleRUs /= max(1, e.readings)
	if s.jsons == 0 { // too few in a day
		s.jsons, e.hundred, e.perHundred = 1, float64(len(s.json)+systemBytes), float64(max(1, s.inJSON))
		e.hundredRUs = readingWrite(e.hundred)
	}
	e.hundred /= s.jsons
	e.hundredRUs /= s.jsons
	e.perHundred /= s.jsons
	days := float64(s.devices) * s.span
	for _, f := range []*float64{&e.readings, &e.values, &e.chunks, &e.bytes, &e.rus} {
		*f /= days
	}
	return e
}

// shares returns the part of each metric in the bytes of the first documents; metrics that a kind begins are one.
func (s *sampler) shares(kinds []string) (out []MetricStore) {
	by, all := map[string]float64{}, 0.0
	for _, doc := range s.documents {
		c, err := chunk.Parse([]byte(doc))
		if err != nil {
			continue // a document of the encoder is none
		}
		for i, bytes := range c.ColumnBytes() {
			name := c.Columns()[i].Metric
			for _, kind := range kinds {
				if strings.HasPrefix(name, kind+"_") {
					name = kind
				}
			}
			by[name] += bytes
			all += bytes
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, MetricStore{name, by[name] / all})
	}
	return out
}

// chunkWrite returns the charge of storing a chunk: five scalars are in the index, the id among them, two of a key.
func chunkWrite(bytes float64) float64 {
	return ru.Stepped.Write(int(bytes), 5*ru.Scalar)
}

// readingWrite returns the charge of storing readings as JSON, with id, tenant, device and time in the index.
func readingWrite(bytes float64) float64 {
	return ru.Stepped.Write(int(bytes), 4*ru.Scalar)
}
