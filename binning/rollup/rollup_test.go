package rollup_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

const day = telemetry.Day(20777) // 2026-11-20

var stale = math.Float64frombits(0x7ff0000000000002)

// sample is a value of a day.
type sample struct {
	t int64
	v float64
}

// values of every kind that IoT and mischief have.
var odd = []float64{math.NaN(), 0, math.Copysign(0, -1), 1, -1, 2, stale, 5, math.Inf(1), math.Inf(-1),
	math.Float64frombits(0xfff8000000000123), 5e-324, math.MaxFloat64}

// randomSamples is a day of a series.
func randomSamples(rnd *rand.Rand) (out []sample) {
	period := []int64{500, 1000, 7000, 10_000, 60_000, 150_000, 3_600_000}[rnd.IntN(7)]
	kind, v := rnd.IntN(5), rnd.Float64()*1000
	for t := day.Start() + []int64{0, 0, 1, 777, 59_999, 60_000}[rnd.IntN(6)]; t < day.End(); t += period {
		if rnd.IntN(100) == 0 {
			t += rnd.Int64N(60 * 60_000)
		}
		if t >= day.End() {
			break
		}
		switch kind {
		case 0:
			v = float64(rnd.IntN(1000)) / 10
		case 1:
			if v += float64(rnd.IntN(30)); rnd.IntN(50) == 0 {
				v = 0
			}
		case 2:
			v = rnd.NormFloat64() * math.Pow(10, float64(rnd.IntN(20)-10))
		case 3:
			v = math.Float64frombits(rnd.Uint64())
		default:
			v = odd[rnd.IntN(len(odd))]
		}
		out = append(out, sample{t, v})
	}
	return out
}

// bucketOf is what of samples resets into (end-length, end], by definition and one field at a time.
func bucketOf(all []sample, end, length int64) (b rollup.Bucket) {
	var in []float64
	for _, s := range all {
		if s.t <= end-length || s.t > end {
			continue
		}
		b.Stale = rollup.IsStale(s.v)
		if b.Stale {
			continue
		}
		if len(in) == 0 {
			b.FirstT, b.First = s.t, s.v
		}
		b.LastT, b.Last = s.t, s.v
		in = append(in, s.v)
	}
	b.N = uint32(len(in))
	if b.N == 0 {
		return b
	}
	for i := 1; i < len(in); i++ {
		if in[i] < in[i-1] {
			b.Resets = append(b.Resets, in[i-1])
		}
	}
	b.Min, b.Max = in[0], in[0]
	for _, v := range in[1:] {
		if v < b.Min || math.IsNaN(b.Min) {
			b.Min = v
		}
		if v > b.Max || math.IsNaN(b.Max) {
			b.Max = v
		}
	}
	b.Size = sizeOf(in)
	for _, v := range in {
		sum := b.Hi + v
		switch {
		case math.IsInf(sum, 0):
			b.Lo = 0
		case math.Abs(b.Hi) >= math.Abs(v):
			b.Lo += (b.Hi - sum) + v
		default:
			b.Lo += (v - sum) + b.Hi
		}
		b.Hi = sum
	}
	return b
}

// sizeOf is how large values are, by what the format says.
func sizeOf(in []float64) rollup.Size {
	greatest, whole := 0.0, true
	for _, v := range in {
		if whole = whole && v == math.Trunc(v) && !math.IsInf(v, 0); math.IsNaN(v) {
			v = math.Inf(1)
		}
		greatest = max(greatest, math.Abs(v))
	}
	size := 0
	if greatest > 0 {
		size = 2 + 2*int(math.Float64bits(greatest)>>52)
	}
	if !whole {
		size++
	}
	return rollup.Size(size)
}

// text shows all bits of a bucket; without sums where they are not asked for.
func text(b rollup.Bucket, sums bool) string {
	bits := func(v ...float64) (out []string) {
		for _, x := range v {
			out = append(out, fmt.Sprintf("%x", math.Float64bits(x)))
		}
		return out
	}
	if b.N == 0 {
		return fmt.Sprintf("0 %v", b.Stale)
	}
	if !sums {
		b.Hi, b.Lo = 0, 0
	}
	return fmt.Sprintf("%d %v %d %d %d %v %v", b.N, b.Stale, b.FirstT, b.LastT, b.Size,
		bits(b.First, b.Last, b.Min, b.Max, b.Hi, b.Lo), bits(b.Resets...))
}

// asSamples is a day as the package takes it.
func asSamples(all []sample) rollup.Samples {
	s := rollup.Samples{Metric: "velocity"}
	for _, x := range all {
		s.Times, s.Values = append(s.Times, x.t), append(s.Values, x.v)
	}
	return s
}

// What was put into documents comes back in all bits, whatever hours they have, one column after the other.
func TestSectionsKeepEveryBit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 12 {
		seriesIndex := make([]rollup.Series, 1+rnd.IntN(6))
		days := make([][]sample, len(seriesIndex))
		whole := rollup.NewTable(len(seriesIndex), rollup.Minute.PerDay(), rollup.AllFamilies)
		at0 := make([]rollup.Sample, len(seriesIndex))
		var rows []int32
		for i := range seriesIndex {
			seriesIndex[i].Device = fmt.Sprintf("truck-%02d", i)
			if rnd.IntN(5) == 0 {
				continue // it has no such metric
			}
			days[i] = randomSamples(rnd)
			s := asSamples(days[i])
			s.Rounded = rnd.IntN(4) == 0
			at0[i], _ = s.Fill(whole, i, day, 0, rollup.HoursOfDay)
			rows = append(rows, int32(i))
		}
		every := []int{1, 2, 5, 24}[rnd.IntN(4)]
		docs := documents(t, whole, at0, rows, every)

		backAt0 := make([]rollup.Sample, len(seriesIndex))
		back := rollup.NewTable(len(seriesIndex), rollup.Minute.PerDay(), rollup.AllFamilies)
		for _, i := range rnd.Perm(len(docs)) {
			d, err := rollup.Parse(docs[i])
			require.NoError(t, err)
			for k := range d.Sections {
				s := &d.Sections[k]
				decodeInto(t, back, s, d.From*60)
				if s.Family == rollup.Last && d.From == 0 {
					got, err := s.SamplesAtMidnight()
					require.NoError(t, err)
					for i, row := range rows {
						backAt0[row] = got[i]
					}
				}
			}
		}
		for i := range seriesIndex {
			require.Equal(t, math.Float64bits(at0[i].V), math.Float64bits(backAt0[i].V))
			require.Equal(t, at0[i].Present, backAt0[i].Present)
			require.Equal(t, len(days[i]) > 0 && days[i][0].t == day.Start(), at0[i].Present)
			require.Equal(t, whole.Rounded[i], back.Rounded[i])
			for k := range rollup.Minute.PerDay() {
				end := rollup.Minute.End(day, k)
				want := bucketOf(days[i], end, int64(rollup.Minute))
				require.Equal(t, text(want, true), text(back.Get(i, k, end), true), "bucket %d of %d", k, i)
			}
		}
	}
}

// decodeInto decodes the columns of a section one after the other into a table of all series, where its first bucket
// is at.
func decodeInto(t *testing.T, to *rollup.Table, s *rollup.Section, at int) {
	places, err := s.SeriesNumbers()
	require.NoError(t, err)
	from := &rollup.Table{Rows: s.Series, Buckets: s.Buckets}
	for c := rollup.Counts; c <= rollup.Highest; c <<= 1 {
		require.NoError(t, s.Decode(from, c))
	}
	for row, place := range places {
		begin, end := row*s.Buckets, int(place)*to.Buckets+at
		cells(to.N, from.N, end, begin, s.Buckets)
		cells(to.Stale, from.Stale, end, begin, s.Buckets)
		cells(to.LastT, from.LastT, end, begin, s.Buckets)
		cells(to.Last, from.Last, end, begin, s.Buckets)
		cells(to.FirstT, from.FirstT, end, begin, s.Buckets)
		cells(to.First, from.First, end, begin, s.Buckets)
		cells(to.Hi, from.Hi, end, begin, s.Buckets)
		cells(to.Lo, from.Lo, end, begin, s.Buckets)
		cells(to.Size, from.Size, end, begin, s.Buckets)
		cells(to.Min, from.Min, end, begin, s.Buckets)
		cells(to.Max, from.Max, end, begin, s.Buckets)
		to.Rounded[place] = from.Rounded[row]
		for _, r := range append([][]rollup.Reset{nil}, from.Resets...)[min(row+1, len(from.Resets))] {
			to.Resets[place] = append(to.Resets[place], rollup.Reset{Bucket: int32(at) + r.Bucket, Values: r.Values})
		}
		slices.SortFunc(to.Resets[place], func(a, b rollup.Reset) int { return int(a.Bucket - b.Bucket) })
	}
}

// cells copies n cells of a column, if it was decoded.
func cells[T any](to, from []T, at, begin, n int) {
	if from != nil {
		copy(to[at:], from[begin:begin+n])
	}
}

// documents are the sections of a table in documents of so many hours.
func documents(t *testing.T, of *rollup.Table, at0 []rollup.Sample, rows []int32, every int) (out [][]byte) {
	t.Helper()
	var b rollup.Builder
	for _, f := range rollup.AllFamilies {
		for hour := 0; hour < rollup.HoursOfDay; hour += every {
			to := min(hour+every, rollup.HoursOfDay)
			key := rollup.Key("velocity", f, rollup.Minute)
			b.Begin(rollup.Header{ID: rollup.ID(key, day, hour, 0, "b1"), TenantShard: "acme~cg", Key: key, Day: day,
				Batch: "b1", From: hour, To: to, Grid: rollup.Minute, TTL: 86400}, nil)
			s := rollup.Slice{Table: of, Rows: rows, From: hour * 60, To: to * 60}
			if hour == 0 {
				s.At0 = at0
			}
			b.Add("velocity", f, rollup.Minute, s)
			doc, err := b.End()
			require.NoError(t, err)
			out = append(out, slices.Clone(doc))
		}
	}
	return out
}

// Half hours out of minutes are what they would be out of samples; their sums are as good, in other bits.
func TestHalfHoursAgreeWithSamples(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	for range 20 {
		all := randomSamples(rnd)
		minutes := rollup.NewTable(1, rollup.Minute.PerDay(), rollup.AllFamilies)
		s := asSamples(all)
		s.Fill(minutes, 0, day, 0, rollup.HoursOfDay)
		half := rollup.HalfHours(minutes, rollup.AllFamilies)
		require.Equal(t, rollup.HalfHour.PerDay(), half.Buckets)
		for k := range half.Buckets {
			end := rollup.HalfHour.End(day, k)
			want, got := bucketOf(all, end, int64(rollup.HalfHour)), half.Get(0, k, end)
			require.Equal(t, text(want, false), text(got, false), "bucket %d", k)
			if sum := want.Hi + want.Lo; !math.IsNaN(sum) && !math.IsInf(sum, 0) && math.Abs(sum) < 1e300 {
				require.InDelta(t, sum, got.Hi+got.Lo, math.Abs(sum)*1e-9+1e-9)
			}
		}
	}
}

// Whatever values are, their size says at least how large they are, and no more than the next power of two.
func TestSizesBoundValues(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	require.Zero(t, rollup.Size(0).MaxMagnitude())
	require.True(t, rollup.Size(0).Whole())
	var of rollup.Size
	greatest, whole := 0.0, true
	for i := range 10_000 {
		v := math.Float64frombits(rnd.Uint64())
		switch {
		case i%3 == 1:
			v = math.Ldexp(float64(rnd.IntN(3)), i%1000-500)
		case i%3 == 2:
			v = float64(rnd.Int64())
		}
		s := rollup.SizeOf(v)
		require.Equal(t, v == math.Trunc(v) && !math.IsInf(v, 0), s.Whole(), v)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			require.Equal(t, math.Inf(1), s.MaxMagnitude(), v)
			continue
		}
		require.GreaterOrEqual(t, s.MaxMagnitude(), math.Abs(v))
		require.LessOrEqual(t, s.MaxMagnitude()/2, max(math.Abs(v), 0x1p-1022), v)
		of, greatest, whole = of.Join(s), max(greatest, math.Abs(v)), whole && s.Whole()
		require.GreaterOrEqual(t, of.MaxMagnitude(), greatest)
		require.Equal(t, whole, of.Whole())
	}
}

// The sample at 00:00 completes the last bucket of the day before.
func TestSampleAtMidnightIsApart(t *testing.T) {
	all := []sample{{day.Start(), 9}, {day.Start() + 1, 1}, {day.Start() + 60_000, 2}, {day.Start() + 60_001, 3},
		{day.End() - 1, 4}}
	table := rollup.NewTable(1, rollup.Minute.PerDay(), rollup.AllFamilies)
	s := asSamples(all)
	at0, some := s.Fill(table, 0, day, 0, rollup.HoursOfDay)
	require.True(t, some)
	require.Equal(t, rollup.Sample{Present: true, V: 9}, at0)
	require.EqualValues(t, 2, table.N[0])
	require.EqualValues(t, 1, table.N[1])
	require.EqualValues(t, 1, table.N[rollup.Minute.PerDay()-1])
	last := table.Get(0, rollup.Minute.PerDay()-1, day.End())
	last.Add(day.End(), 1)
	table.Put(0, rollup.Minute.PerDay()-1, &last, day.End())
	want := bucketOf(append(all, sample{day.End(), 1}), day.End(), int64(rollup.Minute))
	require.Equal(t, text(want, true), text(table.Get(0, rollup.Minute.PerDay()-1, day.End()), true))

	_, some = s.Fill(rollup.NewTable(1, 60, rollup.AllFamilies), 0, day, 5, 6)
	require.False(t, some, "nothing is in that hour")
}

func TestHoursOfInstants(t *testing.T) {
	at := func(hour int, ms int64) int64 { return day.Start() + int64(hour)*3_600_000 + ms }
	require.Equal(t, rollup.Span(0, 1), rollup.HoursOf(day, at(0, 0), at(0, 0)))
	require.Equal(t, rollup.Span(0, 1), rollup.HoursOf(day, at(0, 0), at(1, 0)))
	require.Equal(t, rollup.Span(0, 2), rollup.HoursOf(day, at(1, 0), at(1, 1)))
	require.Equal(t, rollup.Span(5, 24), rollup.HoursOf(day, at(5, 1), at(24, -1)))
	require.Equal(t, rollup.AllDay, rollup.Span(0, 24))
	require.Equal(t, 24, rollup.AllDay.Count())
	for hour := range rollup.HoursOfDay {
		r := rollup.Range(day, hour, hour+1)
		require.Equal(t, rollup.Span(hour, hour+1), rollup.HoursOf(day, r.From, r.To-1))
	}
	require.Equal(t, telemetry.Range{From: day.Start(), To: day.End()}, rollup.Range(day, 0, 24))
}

// Of one instant the value of the newest source counts, whatever its type.
func TestMergeAgreesWithMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	for range 300 {
		frames, want := randomFrames(rnd)
		got := rollup.Merge(frames, func(metric string) bool { return metric != "c" })
		for i := range got {
			require.NotEmpty(t, got[i].Times)
			require.True(t, slices.IsSorted(got[i].Times))
			if i > 0 {
				a, b := got[i-1], got[i]
				require.Negative(t, cmp.Or(a.Labels.Compare(b.Labels), strings.Compare(a.Metric, b.Metric)))
			}
			for k, at := range got[i].Times {
				key := fmt.Sprint(got[i].Labels, got[i].Metric, at)
				require.Contains(t, want, key)
				require.Equal(t, want[key], got[i].Values[k], key)
				delete(want, key)
			}
		}
		require.Empty(t, want)
	}
}

// randomFrames are frames that overlap, and what a map holds that gets their values one after the other.
func randomFrames(rnd *rand.Rand) (frames []chunk.Frame, want map[string]float64) {
	type cell struct {
		v    float64
		text bool
	}
	all := make(map[string]cell)
	for range 1 + rnd.IntN(4) {
		var f chunk.Frame
		for _, value := range []string{"", "left", "right"}[:1+rnd.IntN(3)] {
			var g chunk.Group
			if value != "" {
				g.Labels = telemetry.Labels{{Name: "wheel", Value: value}}
			}
			at := day.Start() + rnd.Int64N(20)
			for range 1 + rnd.IntN(20) {
				g.Times = append(g.Times, at)
				at += 1 + rnd.Int64N(3)
			}
			for _, metric := range []string{"a", "b", "c"}[:1+rnd.IntN(3)] {
				c := chunk.Column{Metric: metric, Kind: telemetry.Kind(1 + rnd.IntN(4)), Present: chunk.NewBitmap(len(g.Times))}
				for i, at := range g.Times {
					if rnd.IntN(3) == 0 && i > 0 {
						continue
					}
					c.Present.Set(i)
					x := cell{v: float64(rnd.IntN(2))}
					switch c.Kind {
					case telemetry.Text:
						x.text = true
						c.Texts = append(c.Texts, "x")
					case telemetry.Float:
						c.Bits = append(c.Bits, math.Float64bits(x.v))
					default:
						c.Bits = append(c.Bits, uint64(x.v))
					}
					all[fmt.Sprint(g.Labels, metric, at)] = x
				}
				if metric == "c" {
					for _, at := range g.Times {
						delete(all, fmt.Sprint(g.Labels, metric, at))
					}
				}
				g.Columns = append(g.Columns, c)
			}
			f.Groups = append(f.Groups, g)
		}
		frames = append(frames, f)
	}
	want = make(map[string]float64)
	for key, x := range all {
		if !x.text {
			want[key] = x.v
		}
	}
	return frames, want
}

func TestRoundedIntegersAreMarked(t *testing.T) {
	for v, rounded := range map[int64]bool{1 << 53: false, 1<<53 + 1: true, -1<<53 - 1: true, math.MinInt64: false,
		math.MaxInt64: true, 1 << 62: false, 7: false} {
		c := chunk.Column{Metric: "a", Kind: telemetry.Int, Bits: []uint64{uint64(v)}}
		g := chunk.Group{Times: []int64{day.Start() + 5}, Columns: []chunk.Column{c}}
		got := rollup.Merge([]chunk.Frame{{Groups: []chunk.Group{g}}}, nil)
		require.Len(t, got, 1)
		require.Equal(t, rounded, got[0].Rounded, v)
		require.Equal(t, float64(v), got[0].Values[0])
	}
}
