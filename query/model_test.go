package query_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// Whatever was published, however it was cut into chunks and bins, stored twice or held by an ingester that is no
// longer the owner: an answer is what a plain map of the last values would hold.
func TestReadingsMatchModel(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 99))
			w, truth := randomWorld(t, rnd)
			for range 60 {
				q := newQuerier(t, w, func(c *query.Config) {
					c.Log, c.Fanout = w.Log, 1+rnd.IntN(6)
					c.MemoryBytes = 4 << 20
				})
				r := randomRequest(rnd, w.Now)
				want, truncated := truth.answer(r)
				got, res := ask(t, q, r)
				t.Logf("request %+v", r)
				sameRows(t, want, got)
				require.Equal(t, truncated, res.Truncated)
				require.True(t, res.Complete, "%v", res.Incomplete)
			}
		})
	}
}

var (
	modelStart   = time.Date(2024, 1, 29, 0, 0, 0, 0, time.UTC)
	modelDevices = []string{"m1", "m2", "truck 3", "heavy", "é"}
	modelMetrics = []string{"a", "b", "velocity", "ä"}
	modelLabels  = []telemetry.Labels{nil, {{Name: "axis", Value: "x"}},
		{{Name: "axis", Value: "y"}, {Name: "unit", Value: ""}}}
)

const modelDays = 34 // touches January, February and March

func randomWorld(t *testing.T, rnd *rand.Rand) (*querytest.World, truth) {
	w := querytest.New(t, modelStart.AddDate(-1, 0, 0))
	for _, tenant := range []string{"acme", "globex"} {
		w.Tenant(tenant)
		longest := 1 + rnd.IntN(15)
		for from := telemetry.DayOf(modelStart.UnixMilli()); rnd.IntN(4) > 0; {
			from += telemetry.Day(1 + rnd.IntN(longest))
			require.NoError(t, w.Directory.AddEpoch(t.Context(), tenant, sharding.Epoch{
				From: from, Slots: sharding.Spread(tenant, 1+rnd.IntN(6)), Dedicated: rnd.IntN(2) == 0,
				Heavy: map[string][]sharding.Slot{"heavy": sharding.Spread(tenant+"x", 2)},
			}))
		}
	}
	for w.Now = modelStart.AddDate(0, 0, -3); rnd.IntN(3) > 0; w.Now = w.Now.AddDate(0, 0, 1+rnd.IntN(12)) {
		require.NoError(t, w.Directory.SetPeriod(t.Context(),
			sharding.PeriodEpoch{Period: sharding.Periods[rnd.IntN(len(sharding.Periods))]}))
	}
	w.Now = modelStart.AddDate(0, 0, modelDays)
	_, err := w.Directory.Refresh(t.Context())
	require.NoError(t, err)
	truth := make(truth)
	logs := make(map[telemetry.Position][]querytest.Record) // by stream and partition
	for range 200 + rnd.IntN(400) {
		p := telemetry.Position{Stream: 1 + rnd.Uint32N(2), Partition: rnd.Int32N(3)}
		r := querytest.Record{Position: p, Reading: randomReading(rnd)}
		r.Position.Offset = int64(2 * len(logs[p]))
		logs[p] = append(logs[p], r)
		truth.take(r)
	}
	w.Log.Set(9000, 9000, 9000)
	for p := range 3 {
		w.Heads.Set(store.PartitionHead{Stream: 2, Partition: int32(p), Position: 9000})
	}
	for p, log := range logs {
		distribute(w, rnd, p, log)
	}
	return w, truth
}

func randomReading(rnd *rand.Rand) telemetry.Reading {
	r := telemetry.Reading{
		Tenant: []string{"acme", "globex"}[rnd.IntN(2)], Device: modelDevices[rnd.IntN(len(modelDevices))],
		Labels: modelLabels[rnd.IntN(len(modelLabels))],
	}
	day := telemetry.DayOf(modelStart.UnixMilli()) + telemetry.Day(rnd.IntN(modelDays))
	if rnd.IntN(2) == 0 {
		day = telemetry.DayOf(modelStart.UnixMilli()) + telemetry.Day(rnd.IntN(3))
	}
	r.Time = day.Start() + []int64{0, 1, 1000, 5000, telemetry.DayMillis - 1, rnd.Int64N(20) * 1000}[rnd.IntN(6)]
	for _, m := range modelMetrics {
		if rnd.IntN(2) == 0 {
			r.Fields = append(r.Fields, telemetry.Field{Metric: m, Value: randomValue(rnd)})
		}
	}
	if r.Fields == nil {
		r.Fields = []telemetry.Field{{Metric: "a", Value: randomValue(rnd)}}
	}
	return r
}

func randomValue(rnd *rand.Rand) telemetry.Value {
	switch rnd.IntN(5) {
	case 0:
		return telemetry.IntValue(int64(rnd.Uint64()))
	case 1:
		return telemetry.BoolValue(rnd.IntN(2) == 0)
	case 2:
		return telemetry.TextValue(strings.Repeat("é,", rnd.IntN(3)))
	case 3:
		return telemetry.FloatValue(math.Float64frombits(rnd.Uint64()))
	}
	return telemetry.FloatValue(float64(rnd.IntN(1000)) / 10)
}

// distribute cuts one partition's log into chunks and bins: all is in at least one of them.
func distribute(w *querytest.World, rnd *rand.Rand, p telemetry.Position, log []querytest.Record) {
	type chain struct {
		tenant, device string
		day            telemetry.Day
	}
	chains := make(map[chain][]querytest.Record)
	for _, r := range log {
		k := chain{r.Tenant, r.Device, telemetry.DayOf(r.Time)}
		chains[k] = append(chains[k], r)
	}
	var open, stale []querytest.Record
	var others [][]querytest.Record
	for _, k := range slices.SortedFunc(mapKeys(chains), func(a, b chain) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.device, b.device), cmp.Compare(a.day, b.day))
	}) {
		rest := chains[k]
		if rnd.IntN(3) == 0 { // an ingester that has begun again below what its predecessor stored
			from := rnd.IntN(len(rest))
			others = append(others, rest[from:from+1+rnd.IntN(len(rest)-from)])
		}
		for len(rest) > 0 && rnd.IntN(4) > 0 {
			n := 1 + rnd.IntN(len(rest))
			w.Chunk(rest[:n]...)
			if rnd.IntN(3) == 0 { // acknowledged a moment ago
				others = append(others, rest[:n])
			}
			if rnd.IntN(3) == 0 { // an ingester that was interrupted before it knew
				stale = append(stale, rest[:rnd.IntN(n+1)]...)
			}
			rest = rest[n:]
		}
		open = append(open, rest...)
	}
	w.Heads.Set(store.PartitionHead{Stream: p.Stream, Partition: p.Partition, Position: 10_000}, open...)
	for _, records := range others {
		w.Heads.AddBin(records...)
	}
	w.Heads.Set(store.PartitionHead{Stream: p.Stream, Partition: p.Partition, Position: 7}, stale...)
}

func mapKeys[K comparable, V any](m map[K]V) func(yield func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func randomRequest(rnd *rand.Rand, now time.Time) query.Request {
	r := query.Request{Tenant: []string{"acme", "globex", "nobody"}[min(2, rnd.IntN(50)/24)], Descending: rnd.IntN(2) == 0,
		Strict: rnd.IntN(4) == 0}
	start := modelStart.UnixMilli()
	switch rnd.IntN(5) {
	case 0:
		r.Range = telemetry.Range{From: 0, To: telemetry.MaxMillis}
	case 1:
		r.Range = telemetry.Range{From: start + telemetry.DayMillis, To: start + 2*telemetry.DayMillis}
	case 2:
		r.Range = telemetry.Range{From: start + 1000, To: start + telemetry.DayMillis + 5001}
	case 3:
		r.Range = telemetry.Range{From: start + rnd.Int64N(modelDays*telemetry.DayMillis)}
		r.Range.To = r.Range.From + rnd.Int64N(20*telemetry.DayMillis)
	default:
		r.Range = telemetry.Range{From: start, To: now.UnixMilli()}
	}
	if rnd.IntN(3) > 0 {
		for range 1 + rnd.IntN(4) {
			r.Devices = append(r.Devices, append(modelDevices, "none", "not/possible")[rnd.IntN(len(modelDevices)+2)])
		}
	}
	if rnd.IntN(2) == 0 {
		for range 1 + rnd.IntN(2) {
			r.Metrics = append(r.Metrics, append(modelMetrics, "none")[rnd.IntN(len(modelMetrics)+1)])
		}
	}
	if rnd.IntN(2) == 0 {
		r.Limit = 1 + rnd.IntN(40)
	}
	return r
}

// truth is the last value of every series and instant.
type truth map[instant]lastValue

type instant struct {
	tenant, device, labels, metric string
	time                           int64
}

type lastValue struct {
	position telemetry.Position
	labels   telemetry.Labels
	value    telemetry.Value
}

func (m truth) take(r querytest.Record) {
	for _, f := range r.Fields {
		at := instant{r.Tenant, r.Device, string(r.Labels.NonEmpty().AppendKey(nil)), f.Metric, r.Time}
		old, ok := m[at]
		if !ok || comparePositions(old.position, r.Position) < 0 {
			m[at] = lastValue{r.Position, r.Labels.NonEmpty(), f.Value}
		}
	}
}

func comparePositions(a, b telemetry.Position) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

func (m truth) answer(r query.Request) (rows []query.Row, truncated bool) {
	type rowOf struct {
		device, labels string
		time           int64
	}
	found := make(map[rowOf]*query.Row)
	for at, last := range m {
		if at.tenant != r.Tenant || !r.Range.Contains(at.time) ||
			(r.Devices != nil && !slices.Contains(r.Devices, at.device)) ||
			(r.Metrics != nil && !slices.Contains(r.Metrics, at.metric)) {
			continue
		}
		k := rowOf{at.device, at.labels, at.time}
		if found[k] == nil {
			found[k] = &query.Row{Device: at.device, Time: at.time, Labels: last.labels}
		}
		found[k].Values = append(found[k].Values, telemetry.Field{Metric: at.metric, Value: last.value})
	}
	for _, row := range found {
		slices.SortFunc(row.Values, func(a, b telemetry.Field) int { return cmp.Compare(a.Metric, b.Metric) })
		rows = append(rows, *row)
	}
	slices.SortFunc(rows, func(a, b query.Row) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Device, b.Device), a.Labels.Compare(b.Labels))
	})
	if r.Descending {
		slices.Reverse(rows)
	}
	if r.Limit > 0 && len(rows) > r.Limit {
		return rows[:r.Limit], true
	}
	return rows, false
}
