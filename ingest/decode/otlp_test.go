package decode_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

const (
	noon       = 1763640000123456789 // nanoseconds
	noonMillis = noon / 1000000
)

var otlpOptions = decode.Options{Tenant: "acme"}

// both decodes metrics from protobuf and from JSON, as the Collector writes them, and checks that the two say the same.
func both(t testing.TB, opts decode.Options, m pmetric.Metrics) decode.Result {
	t.Helper()
	proto, err := new(pmetric.ProtoMarshaler).MarshalMetrics(m)
	require.NoError(t, err)
	json, err := new(pmetric.JSONMarshaler).MarshalMetrics(m)
	require.NoError(t, err)
	one := decode.New(opts).Decode(decode.Record{Value: proto, Timestamp: 77})
	two := decode.New(opts).Decode(decode.Record{Value: json, Timestamp: 77})
	require.Equal(t, one, two, "%s", json)
	return one
}

// host is metrics of one resource, which its attributes describe.
func host(attributes map[string]any) (pmetric.Metrics, pmetric.MetricSlice) {
	m := pmetric.NewMetrics()
	r := m.ResourceMetrics().AppendEmpty()
	_ = r.Resource().Attributes().FromRaw(attributes)
	return m, r.ScopeMetrics().AppendEmpty().Metrics()
}

func gauge(to pmetric.MetricSlice, name, unit string, v float64) pmetric.NumberDataPoint {
	m := to.AppendEmpty()
	m.SetName(name)
	m.SetUnit(unit)
	p := m.SetEmptyGauge().DataPoints().AppendEmpty()
	p.SetTimestamp(noon)
	p.SetDoubleValue(v)
	return p
}

func TestOTLP(t *testing.T) {
	m, metrics := host(map[string]any{"host.name": "gw-7", "service.name": "pump", "os.type": "linux", "cores": 8})
	gauge(metrics, "temperature", "Cel", 73.9)
	gauge(metrics, "starts", "1", 0).SetIntValue(9007199254740993)
	gauge(metrics, "load", "1", 0.5).Attributes().PutStr("cpu", "0")

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
	x := metrics.AppendEmpty()
	x.SetName("latency")
	h := x.SetEmptyHistogram()
	h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	p := h.DataPoints().AppendEmpty()
	p.SetTimestamp(noon)
	p.SetCount(6)
	p.SetSum(12.5)
	p.SetMax(7)
	p.BucketCounts().FromRaw([]uint64{1, 2, 3})
	p.ExplicitBounds().FromRaw([]float64{0.5, 5})

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
	for i, temporality := range []pmetric.AggregationTemporality{pmetric.AggregationTemporalityCumulative,
		pmetric.AggregationTemporalityDelta} {
		x := metrics.AppendEmpty()
		x.SetName("starts")
		s := x.SetEmptySum()
		s.SetAggregationTemporality(temporality)
		p := s.DataPoints().AppendEmpty()
		p.SetTimestamp(noon)
		p.SetIntValue(int64(i))
		p.Attributes().PutStr("a", "b")
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
	gauge(metrics, "label", "", 1).Attributes().PutStr("", "x")
	none := metrics.AppendEmpty()
	none.SetName("none")
	none.SetEmptyGauge().DataPoints().AppendEmpty()
	gauge(metrics, "stale", "", 1).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	x := metrics.AppendEmpty()
	x.SetName("many")
	x.SetEmptyHistogram().DataPoints().AppendEmpty().SetCount(math.MaxUint64)
	gauge(metrics, "timeless", "", 2).SetTimestamp(0)

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

// Random metrics in the official encoder's protobuf and JSON give the values that its own model has.
func TestOTLPAgainstTheOfficialEncoder(t *testing.T) {
	for seed := range uint64(300) {
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
func randomMetrics(r *rand.Rand) (pmetric.Metrics, values) {
	m, want := pmetric.NewMetrics(), values{}
	for i := range 1 + r.IntN(3) {
		rm := m.ResourceMetrics().AppendEmpty()
		device := fmt.Sprintf("m%d", i)
		rm.Resource().Attributes().PutStr("host.name", device)
		rm.Resource().Attributes().PutDouble("weight", r.Float64())
		resource := telemetry.Labels{}
		if r.IntN(2) == 0 {
			rm.Resource().Attributes().PutStr("service.name", "s")
			resource = append(resource, telemetry.Label{Name: "service.name", Value: "s"})
		}
		for s := range 1 + r.IntN(2) {
			metrics := rm.ScopeMetrics().AppendEmpty().Metrics()
			for j := range r.IntN(8) {
				x := metrics.AppendEmpty()
				x.SetName(fmt.Sprintf("metric.%d.%d", s, j))
				x.SetUnit("By")
				randomMetric(r, x, func(at int64, labels telemetry.Labels, metric string, v telemetry.Value) {
					all := telemetry.NewLabels(append(append([]telemetry.Label{}, labels...), resource...))
					want.put("acme", device, at, all.NonEmpty(),
						metric, v)
				})
			}
		}
	}
	return m, want
}

type putter func(at int64, labels telemetry.Labels, metric string, v telemetry.Value)

func randomMetric(r *rand.Rand, x pmetric.Metric, put putter) {
	name, delta := x.Name(), telemetry.Labels(nil)
	temporality := pmetric.AggregationTemporality(1 + r.IntN(2))
	float, integer := telemetry.FloatValue, telemetry.IntValue
	kind := r.IntN(5)
	if temporality == pmetric.AggregationTemporalityDelta && kind != 0 && kind != 4 {
		delta = telemetry.Labels{{Name: "temporality", Value: "delta"}}
	}
	number := func(to pmetric.NumberDataPointSlice) {
		for i := range r.IntN(4) {
			p := to.AppendEmpty()
			at, labels := randomPoint(r, i, p)
			labels = append(labels, delta...)
			if r.IntN(2) == 0 {
				p.SetIntValue(int64(r.Uint64()))
				put(at, labels, name, integer(p.IntValue()))
			} else {
				p.SetDoubleValue(randomFloat(r))
				put(at, labels, name, float(p.DoubleValue()))
			}
		}
	}
	switch kind {
	case 0:
		number(x.SetEmptyGauge().DataPoints())
	case 1:
		s := x.SetEmptySum()
		s.SetAggregationTemporality(temporality)
		s.SetIsMonotonic(true)
		number(s.DataPoints())
	case 2:
		h := x.SetEmptyHistogram()
		h.SetAggregationTemporality(temporality)
		for i := range r.IntN(4) {
			p := h.DataPoints().AppendEmpty()
			at, labels := randomPoint(r, i, p)
			labels = append(labels, delta...)
			counts, bounds := []uint64{r.Uint64N(99), r.Uint64N(99), r.Uint64N(99)}, []float64{-1.5, 1e9}
			p.BucketCounts().FromRaw(counts)
			p.ExplicitBounds().FromRaw(bounds)
			p.SetCount(counts[0] + counts[1] + counts[2])
			put(at, labels, name+"_count", integer(int64(p.Count())))
			total := int64(0)
			for i, le := range []string{"-1.5", "1e+09", "+Inf"} {
				total += int64(counts[i])
				put(at, append(append(telemetry.Labels{}, labels...), telemetry.Label{Name: "le", Value: le}), name+"_bucket",
					integer(total))
			}
			if r.IntN(2) == 0 {
				p.SetSum(randomFloat(r))
				put(at, labels, name+"_sum", float(p.Sum()))
			}
		}
	case 3:
		h := x.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(temporality)
		for i := range r.IntN(4) {
			p := h.DataPoints().AppendEmpty()
			at, labels := randomPoint(r, i, p)
			labels = append(labels, delta...)
			p.SetScale(3)
			p.SetZeroCount(5)
			p.Positive().BucketCounts().FromRaw([]uint64{1, 2})
			p.SetCount(r.Uint64N(1 << 62))
			p.SetMin(randomFloat(r))
			put(at, labels, name+"_count", integer(int64(p.Count())))
			put(at, labels, name+"_min", float(p.Min()))
		}
	case 4:
		for i := range r.IntN(4) {
			p := x.SetEmptySummary().DataPoints().AppendEmpty()
			at, labels := randomPoint(r, i, p)
			p.SetCount(r.Uint64N(1 << 62))
			p.SetSum(r.Float64())
			q := p.QuantileValues().AppendEmpty()
			q.SetQuantile(0.99)
			q.SetValue(r.NormFloat64())
			put(at, labels, name+"_count", integer(int64(p.Count())))
			put(at, labels, name+"_sum", float(p.Sum()))
			put(at, append(labels, telemetry.Label{Name: "quantile", Value: "0.99"}), name, float(q.Value()))
			break
		}
	}
}

// randomPoint gives a data point a time, attributes of every type, and what else Binnacle passes over.
func randomPoint(r *rand.Rand, i int, p interface {
	SetTimestamp(pcommon.Timestamp)
	SetStartTimestamp(pcommon.Timestamp)
	Attributes() pcommon.Map
}) (int64, telemetry.Labels) {
	at := pcommon.Timestamp(noon + r.Uint64N(1e10))
	p.SetTimestamp(at)
	p.SetStartTimestamp(noon)
	p.Attributes().PutInt("i", int64(i))
	labels := telemetry.Labels{{Name: "i", Value: strconv.Itoa(i)}}
	add := func(name string, value pcommon.Value) {
		labels = append(labels, telemetry.Label{Name: name, Value: value.AsString()})
	}
	if r.IntN(2) == 0 {
		v := p.Attributes().PutEmpty("a\"é")
		_ = v.FromRaw([]any{"x\n", "<", r.Uint64() > 1, r.Float64(), int64(r.Uint64()), nil, []byte{1, 2},
			map[string]any{"b": "é", "a": []any{}}}[r.IntN(8)])
		add("a\"é", v)
	}
	if r.IntN(4) == 0 {
		v := p.Attributes().PutEmpty("list")
		_ = v.FromRaw([]any{"x", 1.5, int64(math.MaxInt64), []any{true, nil}, map[string]any{"k": []byte{255}}})
		add("list", v)
	}
	return int64(at / 1e6), labels
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
