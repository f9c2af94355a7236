package decode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

const (
	noon       = 1763640000123456789 // nanoseconds
	noonMillis = noon / 1000000
)

var otlpOptions = decode.Options{Tenant: "acme"}

// both decodes metrics from protobuf and from JSON, and checks that the two say the same.
func both(t testing.TB, opts decode.Options, m *otlp) decode.Result {
	t.Helper()
	one := decode.New(opts).Decode(decode.Record{Value: m.protobuf(), Timestamp: 77})
	two := decode.New(opts).Decode(decode.Record{Value: m.json(), Timestamp: 77})
	require.Equal(t, one, two, "%s", m.json())
	return one
}

// host is metrics of one resource, which its attributes describe.
func host(attributes map[string]any) (*otlp, *scope) {
	m := &otlp{}
	return m, m.add(attributes)
}

func gauge(to *scope, name, unit string, v float64) *dataPoint {
	return to.add(name, unit, gauges).add(dataPoint{time: noon, value: v})
}

func TestOTLP(t *testing.T) {
	m, metrics := host(map[string]any{"host.name": "gw-7", "service.name": "pump", "os.type": "linux", "cores": 8})
	gauge(metrics, "temperature", "Cel", 73.9)
	gauge(metrics, "starts", "1", 0).value = int64(9007199254740993)
	gauge(metrics, "load", "1", 0.5).put("cpu", "0")

	got := both(t, otlpOptions, m)
	require.Empty(t, got.Bad)
	service := telemetry.Label{Name: "service.name", Value: "pump"}
	tags := telemetry.Labels{{Name: "cores", Value: "8"}, {Name: "os.type", Value: "linux"}}
	require.Equal(t, []telemetry.Reading{{
		Tenant: "acme", Device: "gw-7", Time: noonMillis,
		Fields: []telemetry.Field{
			{Metric: "starts", Value: telemetry.IntValue(9007199254740993)},
			{Metric: "temperature", Value: telemetry.FloatValue(73.9)},
		},
		Labels: telemetry.Labels{service}, Tags: tags,
	}, {
		Tenant: "acme", Device: "gw-7", Time: noonMillis,
		Fields: []telemetry.Field{{Metric: "load", Value: telemetry.FloatValue(0.5)}},
		Labels: telemetry.Labels{{Name: "cpu", Value: "0"}, service}, Tags: tags,
	}}, got.Readings)
	require.Equal(t, []int{0, 2}, got.Index)
	require.Equal(t, []decode.Unit{
		{Tenant: "acme", Metric: "temperature", Unit: "Cel"}, {Tenant: "acme", Metric: "starts", Unit: "1"},
		{Tenant: "acme", Metric: "load", Unit: "1"},
	}, got.Units)
}

// Histograms become counts and sums, and what else they say of themselves; buckets only where they are asked for.
func TestOTLPHistograms(t *testing.T) {
	m, metrics := host(map[string]any{"device": "m1"})
	x := metrics.add("latency", "", histograms)
	x.temporality = cumulative
	x.add(dataPoint{time: noon, count: 6, sum: new(12.5), max: new(7.0), counts: []uint64{1, 2, 3},
		bounds: []float64{0.5, 5}})

	const at int64 = noonMillis
	want := values{}
	want.put("acme", "m1", at, nil, "latency_count", telemetry.IntValue(6))
	want.put("acme", "m1", at, nil, "latency_sum", telemetry.FloatValue(12.5))
	want.put("acme", "m1", at, nil, "latency_max", telemetry.FloatValue(7))
	got := both(t, otlpOptions, m)
	require.Empty(t, got.Bad)
	require.Equal(t, want, flat(t, got))

	for le, n := range map[string]int64{"0.5": 1, "5": 3, "+Inf": 6} {
		want.put("acme", "m1", at, telemetry.Labels{{Name: "le", Value: le}}, "latency_bucket", telemetry.IntValue(n))
	}
	opts := otlpOptions
	opts.Buckets = true
	require.Equal(t, want, flat(t, both(t, opts, m)))
}

// What is counted anew for each data point is marked: adding it up is another thing than taking its rate.
func TestOTLPDelta(t *testing.T) {
	m, metrics := host(map[string]any{"device": "m1"})
	for i, temporality := range []int{cumulative, delta} {
		x := metrics.add("starts", "", sums)
		x.temporality = temporality
		x.add(dataPoint{time: noon, value: int64(i)}).put("a", "b")
	}
	got := both(t, otlpOptions, m)
	ab := telemetry.Label{Name: "a", Value: "b"}
	want := values{}
	want.put("acme", "m1", noonMillis, telemetry.Labels{ab}, "starts", telemetry.IntValue(0))
	want.put("acme", "m1", noonMillis, telemetry.Labels{ab, {Name: "temporality", Value: "delta"}}, "starts",
		telemetry.IntValue(1))
	require.Equal(t, want, flat(t, got))
}

// Where tenant and device come from, and what is said when they are nowhere.
func TestOTLPPlace(t *testing.T) {
	for _, c := range []struct {
		opts       decode.Options
		attributes map[string]any
		want       string // tenant and device, or the reason
	}{
		{decode.Options{Tenant: "acme"}, map[string]any{"host.name": "h", "service.instance.id": "i"}, "acme i"},
		{decode.Options{Tenant: "acme"}, map[string]any{"host.name": "h", "service.name": "s"}, "acme h"},
		{decode.Options{Tenant: "acme"}, map[string]any{"service.name": "s"}, "acme s"},
		{decode.Options{Tenant: "acme"}, map[string]any{"device": "", "service.name": "s"}, "acme s"},
		{decode.Options{Tenant: "acme"}, map[string]any{"tenant": "globex", "device": "d"}, "globex d"},
		{decode.Options{Tenant: "acme"}, map[string]any{"device.id": 42}, "acme 42"},
		{decode.Options{Tenant: "acme", Device: "x"}, map[string]any{}, "acme x"},
		{decode.Options{Tenant: "acme"}, map[string]any{"os.type": "linux"}, "device"},
		{decode.Options{Tenant: "acme"}, map[string]any{"device": "a/b"}, "device"},
		{decode.Options{}, map[string]any{"device": "d"}, "tenant"},
		{decode.Options{}, map[string]any{"device": "d", "tenant": "A"}, "tenant"},
		{decode.Options{Tenant: "acme", Resource: decode.ResourceNames{Device: []string{"vin"}}},
			map[string]any{"vin": "v", "device": "d"}, "acme v"},
		{decode.Options{Resource: decode.ResourceNames{Tenant: []string{"customer"}}},
			map[string]any{"customer": "c", "device": "d"}, "c d"},
	} {
		m, metrics := host(c.attributes)
		gauge(metrics, "a", "", 1)
		gauge(metrics, "b", "", 1)
		got := both(t, c.opts, m)
		if len(got.Readings) == 0 {
			require.Len(t, got.Bad, 1, "a resource without a place is one fault")
			require.Equal(t, c.want, string(got.Bad[0].Reason), "%v: %s", c.attributes, got.Bad[0].Detail)
			continue
		}
		require.Equal(t, c.want, got.Readings[0].Tenant+" "+got.Readings[0].Device, "%v", c.attributes)
	}
}

// A data point that is wrong costs only itself.
func TestOTLPBadPoints(t *testing.T) {
	m, metrics := host(map[string]any{"device": "m1"})
	gauge(metrics, "good", "", 1)
	gauge(metrics, "", "", 1)
	gauge(metrics, "label", "", 1).put("", "x")
	metrics.add("none", "", gauges).add(dataPoint{})
	gauge(metrics, "stale", "", 1).flags = 1
	metrics.add("many", "", histograms).add(dataPoint{count: math.MaxUint64})
	gauge(metrics, "timeless", "", 2).time = 0

	got := both(t, otlpOptions, m)
	var bad []decode.Bad
	for _, b := range got.Bad {
		bad = append(bad, decode.Bad{Index: b.Index, Reason: b.Reason})
	}
	require.Equal(t, []decode.Bad{{Index: 1, Reason: decode.Name}, {Index: 2, Reason: decode.Name},
		{Index: 3, Reason: decode.Empty},
		{Index: 5, Reason: decode.Value}}, bad)
	want := values{}
	want.put("acme", "m1", noonMillis, nil, "good", telemetry.FloatValue(1))
	want.put("acme", "m1", 77, nil, "timeless", telemetry.FloatValue(2))
	require.Equal(t, want, flat(t, got))
}

// Records that the Collector's own encoder has written give the values that its own model had.
func TestOTLPOfTheCollector(t *testing.T) {
	text, err := os.ReadFile("testdata/collector.jsonl")
	require.NoError(t, err)
	opts, n := otlpOptions, 0
	opts.Buckets = true
	for line := range bytes.Lines(text) {
		var record struct {
			Protobuf []byte
			JSON     json.RawMessage
			Values   values
		}
		require.NoError(t, json.Unmarshal(line, &record))
		for _, value := range [][]byte{record.Protobuf, record.JSON} {
			got := decode.New(opts).Decode(decode.Record{Value: value, Timestamp: 77})
			require.Empty(t, got.Bad)
			require.Equal(t, record.Values, flat(t, got))
			n += len(record.Values)
		}
	}
	require.Greater(t, n, 500)
}

// Random metrics in protobuf and JSON give the values that their model has.
func TestOTLPOfRandomMetrics(t *testing.T) {
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 4))
		m, want := randomMetrics(r)
		opts := otlpOptions
		opts.Buckets = true
		got := both(t, opts, m)
		require.Empty(t, got.Bad, "seed %d", seed)
		require.Equal(t, want, flat(t, got), "seed %d", seed)
	}
}

// randomMetrics are metrics of different places, and what they are as a map.
func randomMetrics(r *rand.Rand) (*otlp, values) {
	m, want := &otlp{}, values{}
	for i := range 1 + r.IntN(3) {
		device, rest := fmt.Sprintf("m%d", i), telemetry.Labels{}
		attributes := map[string]any{"host.name": device, "weight": r.Float64()}
		if r.IntN(2) == 0 {
			attributes["service.name"] = "s"
			rest = append(rest, telemetry.Label{Name: "service.name", Value: "s"})
		}
		m.add(attributes)
		own := m.resources[i]
		for s := range 1 + r.IntN(2) {
			if s > 0 {
				own.scopes = append(own.scopes, &scope{})
			}
			for j := range r.IntN(8) {
				x := own.scopes[s].add(fmt.Sprintf("metric.%d.%d", s, j), "By",
					[]metricKind{gauges, sums, histograms, exponentials, summaries}[r.IntN(5)])
				randomPoints(r, x, func(at int64, labels telemetry.Labels, metric string, v telemetry.Value) {
					all := telemetry.NewLabels(append(append([]telemetry.Label{}, labels...), rest...))
					want.put("acme", device, at, all.NonEmpty(), metric, v)
				})
			}
		}
	}
	return m, want
}

type putter func(at int64, labels telemetry.Labels, metric string, v telemetry.Value)

func randomPoints(r *rand.Rand, x *metric, put putter) {
	var more telemetry.Labels
	if x.kind == sums || x.kind == histograms || x.kind == exponentials {
		if x.temporality = 1 + r.IntN(2); x.temporality == delta {
			more = telemetry.Labels{{Name: "temporality", Value: "delta"}}
		}
	}
	float := telemetry.FloatValue
	for i := range r.IntN(4) {
		p := x.add(dataPoint{})
		at, labels := randomPoint(r, i, p)
		labels = append(labels, more...)
		of := func(more string, v telemetry.Value) { put(at, labels, x.name+more, v) }
		if x.kind == gauges || x.kind == sums {
			if r.IntN(2) == 0 {
				n := int64(r.Uint64())
				p.value = n
				of("", telemetry.IntValue(n))
			} else {
				v := randomFloat(r)
				p.value = v
				of("", float(v))
			}
			continue
		}
		p.count = r.Uint64N(1 << 62)
		if x.kind == histograms {
			p.counts, p.bounds = []uint64{r.Uint64N(99), r.Uint64N(99), r.Uint64N(99)}, []float64{-1.5, 1e9}
			p.count = p.counts[0] + p.counts[1] + p.counts[2]
			total := int64(0)
			for i, le := range []string{"-1.5", "1e+09", "+Inf"} {
				total += int64(p.counts[i])
				put(at, append(append(telemetry.Labels{}, labels...), telemetry.Label{Name: "le", Value: le}), x.name+"_bucket",
					telemetry.IntValue(total))
			}
		}
		of("_count", telemetry.IntValue(int64(p.count)))
		switch x.kind {
		case histograms:
			if r.IntN(2) == 0 {
				p.sum = new(randomFloat(r))
				of("_sum", float(*p.sum))
			}
		case exponentials:
			p.scale, p.min = new(3.0), new(randomFloat(r))
			of("_min", float(*p.min))
		case summaries:
			p.sum, p.quantile = new(r.Float64()), new(r.NormFloat64())
			of("_sum", float(*p.sum))
			put(at, append(labels, telemetry.Label{Name: "quantile", Value: "0.99"}), x.name, float(*p.quantile))
		}
	}
}

// randomPoint gives a data point a time, attributes of every type, and what else Binnacle passes over.
func randomPoint(r *rand.Rand, i int, p *dataPoint) (int64, telemetry.Labels) {
	p.start, p.time = noon, noon+r.Uint64N(1e10)
	p.put("i", int64(i))
	labels := telemetry.Labels{{Name: "i", Value: strconv.Itoa(i)}}
	add := func(name string, v any) {
		p.put(name, v)
		labels = append(labels, telemetry.Label{Name: name, Value: asText(v)})
	}
	if r.IntN(2) == 0 {
		add("a\"é", []any{"x\n", "<", r.Uint64() > 1, r.Float64(), int64(r.Uint64()), nil, []byte{1, 2},
			map[string]any{"b": "é", "a": []any{}}}[r.IntN(8)])
	}
	if r.IntN(4) == 0 {
		add("list", []any{"x", 1.5, int64(math.MaxInt64), []any{true, nil}, map[string]any{"k": []byte{255}}})
	}
	return int64(p.time / 1e6), labels
}

func randomFloat(r *rand.Rand) float64 {
	switch r.IntN(8) {
	case 0:
		return math.Inf(1)
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return math.NaN()
	}
	return r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
}
