package rollup_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files of the version in the works")

var seriesIndex = []rollup.Series{
	{Device: "Gerät 2:ß"}, {Device: "truck-0001"},
	{Device: "truck-0001", Labels: telemetry.Labels{{Name: "wheel", Value: "left"}}}, {Device: "truck-0002"},
}

func TestSeriesIndexRoundTrip(t *testing.T) {
	h := rollup.Header{TenantShard: "acme~cg", Key: rollup.SeriesIndexKey, Day: day, Batch: "b1", Part: 3,
		From: 2, To: 24, TTL: 9}
	h.ID = rollup.ID(h.Key, day, h.From, h.Part, h.Batch)
	d, err := rollup.Parse(rollup.AppendSeriesIndex(nil, h, seriesIndex))
	require.NoError(t, err)
	require.Equal(t, seriesIndex, d.SeriesIndex)
	require.Equal(t, h, d.Header)
	for i, s := range seriesIndex {
		require.Equal(t, i, rollup.FindSeries(seriesIndex, s))
	}
	require.Equal(t, -1, rollup.FindSeries(seriesIndex, rollup.Series{Device: "truck-0003"}))
}

func TestDocumentNames(t *testing.T) {
	require.Equal(t, "velocity.L.2026112008.0.k3x9",
		rollup.ID(rollup.Key("velocity", rollup.Last, rollup.Minute), day, 8, 0, "k3x9"))
	require.Equal(t, "manifest.20261120", rollup.ManifestID(day))
	require.Equal(t, "system.cpu_load.S30", rollup.Key("system.cpu_load", rollup.Sum, rollup.HalfHour))
	require.Equal(t, "a~2fb~c3~9f.F", rollup.Key("a/bß", rollup.First, rollup.Minute))
	require.NotEqual(t, rollup.Key("a~2fb", rollup.Last, rollup.Minute), rollup.Key("a/b", rollup.Last, rollup.Minute))
	long := strings.Repeat("ß", 200)
	require.Less(t, len(rollup.Key(long, rollup.Last, rollup.HalfHour)), 210)
	require.NotEqual(t, rollup.Key(long, rollup.Last, rollup.Minute),
		rollup.Key(long[:398]+"x", rollup.Last, rollup.Minute))
	for _, name := range []string{"", "A", "a.b", strings.Repeat("x", 33)} {
		require.ErrorIs(t, rollup.CheckBatch(name), rollup.ErrCorrupt)
	}
	require.NoError(t, rollup.CheckBatch("k3x9"))
	for s, ok := range map[string]bool{"L": true, "LFSM": true, "LM": true, "F": false, "": false, "ML": false,
		"LX": false, "LL": false} {
		f, err := rollup.ParseFamilies(s)
		require.Equal(t, ok, err == nil, s)
		if ok {
			require.Equal(t, s, f.String())
		}
	}
}

func manifest() *rollup.Manifest {
	l := &rollup.Manifest{TenantShard: "acme~cg", Day: day, AsOf: 1795100000, Written: 4, TTL: 777}
	l.Batches = []rollup.Batch{
		{Name: "b1", Grids: []rollup.Grid{rollup.Minute, rollup.HalfHour}, From: 0, To: 12, Parts: 2, Size: 300,
			Without: []string{"huge"},
			Metrics: []rollup.Metric{{Name: "odometer", Families: rollup.AllFamilies, Every: []int{2, 2, 1, 12}},
				{Name: "velocity", Families: rollup.Families{rollup.Last}, Every: []int{5}, Parts: []int{1}}}},
		{Name: "b2", Grids: []rollup.Grid{rollup.Minute}, From: 12, To: 24, Parts: 1},
		{Name: "b3", Grids: []rollup.Grid{rollup.Minute, rollup.HalfHour}, From: 3, To: 4, Correction: true,
			Devices: []string{"truck-0001", "truck-0002"}},
	}
	l.MarkRaw("truck-0009", rollup.Span(3, 5))
	l.MarkRaw("truck-0009", rollup.Span(7, 8))
	l.Until[3] = 1799999999
	return l
}

func TestManifestRoundTrip(t *testing.T) {
	l := manifest()
	doc, err := l.Encode()
	require.NoError(t, err)
	back, err := rollup.ParseManifest(doc)
	require.NoError(t, err)
	require.Equal(t, l, back)
	require.Equal(t, rollup.AllDay, l.MinuteHours())
	require.Equal(t, rollup.Span(0, 12), l.CoveredHours(rollup.HalfHour))

	c := l.Clone()
	c.ClearRaw("truck-0009", rollup.Span(3, 5))
	require.Equal(t, map[string]rollup.Hours{"truck-0009": rollup.Span(7, 8)}, c.Raw)
	c.ClearRaw("truck-0009", rollup.AllDay)
	require.Empty(t, c.Raw)
	require.Equal(t, back, l, "a copy was changed")
}

func TestPruneRemovesReplacedBatches(t *testing.T) {
	names := func(batches []rollup.Batch) (out []string) {
		for _, b := range batches {
			out = append(out, b.Name)
		}
		return out
	}
	l := manifest()
	require.Empty(t, l.Prune(), "all of them count")
	require.True(t, l.Omits("huge", rollup.Span(11, 12)))
	require.False(t, l.Omits("huge", rollup.Span(11, 13)), "it is shown in one of them")
	require.False(t, l.Omits("huge", rollup.Span(12, 13)))
	l.Batches = append(l.Batches, rollup.Batch{Name: "b4", Grids: []rollup.Grid{rollup.Minute}, From: 0, To: 14, Parts: 1})
	require.Empty(t, l.Prune(), "half hours and later hours count still")
	l.Batches = append(l.Batches, rollup.Batch{Name: "b5", Grids: []rollup.Grid{rollup.HalfHour}, To: 24,
		Parts: 1})
	require.Equal(t, []string{"b3", "b1"}, names(l.Prune()))
	require.Equal(t, []string{"b2", "b4", "b5"}, names(l.Batches))
	l.Batches = append(l.Batches, rollup.Batch{Name: "b6", Grids: []rollup.Grid{rollup.Minute}, From: 3, To: 4,
		Correction: true})
	require.Empty(t, l.Prune(), "a correction has some devices alone")
}

func TestDocumentsOfBatch(t *testing.T) {
	b := &manifest().Batches[0]
	ids := func(refs []rollup.Ref) (out []string) {
		for _, r := range refs {
			out = append(out, r.ID)
		}
		return out
	}
	require.Equal(t, []string{"odometer.F.2026112002.0.b1", "odometer.F.2026112002.1.b1", "odometer.F.2026112004.0.b1",
		"odometer.F.2026112004.1.b1"}, ids(b.Documents(day, "odometer", rollup.First, rollup.Minute, rollup.Span(3, 5))))
	require.Equal(t, []string{"velocity.L.2026112005.1.b1"},
		ids(b.Documents(day, "velocity", rollup.Last, rollup.Minute, rollup.Span(5, 10))))
	require.Equal(t, []string{"velocity.L30.2026112000.1.b1"},
		ids(b.Documents(day, "velocity", rollup.Last, rollup.HalfHour, rollup.AllDay)))
	require.Empty(t, b.Documents(day, "velocity", rollup.Sum, rollup.Minute, rollup.AllDay))
	require.Empty(t, b.Documents(day, "huge", rollup.Last, rollup.Minute, rollup.AllDay))
	require.True(t, b.Omits("huge"))
	require.False(t, b.Omits("unheard-of"))
	require.Equal(t, []string{"seriesIndex.2026112000.0.b1", "seriesIndex.2026112000.1.b1"}, ids(b.SeriesIndexes(day)))
	fold := &manifest().Batches[2]
	require.Empty(t, fold.SeriesIndexes(day))
	require.Equal(t, "corrections.2026112003.0.b3", fold.CorrectionDocument(day).ID)
}

// goldenDocuments are what this release writes.
func goldenDocuments(t testing.TB) map[string][]byte {
	out := make(map[string][]byte)
	rnd := rand.New(rand.NewPCG(1, 2))
	table := rollup.NewTable(3, rollup.Minute.PerDay(), rollup.AllFamilies)
	at0 := make([]rollup.Sample, 3)
	for row := range 3 {
		s := rollup.Samples{Metric: "velocity", Rounded: row == 1}
		for at := day.Start() + int64(row*5000); at < day.End(); at += 10_000 {
			v := float64(rnd.IntN(900)) / 10
			if rnd.IntN(500) == 0 {
				v = stale
			}
			s.Times, s.Values = append(s.Times, at), append(s.Values, v)
		}
		at0[row], _ = s.Fill(table, row, day, 0, rollup.HoursOfDay)
	}
	var b rollup.Builder
	add := func(name string, doc []byte, err error) {
		require.NoError(t, err)
		out[name] = slices.Clone(doc)
	}
	head := func(key string, from, to int) rollup.Header {
		return rollup.Header{ID: rollup.ID(key, day, from, 0, "b1"), TenantShard: "acme~cg", Key: key, Day: day, Batch: "b1",
			From: from, To: to, Grid: rollup.Minute}
	}
	for _, f := range rollup.AllFamilies {
		b.Begin(head(rollup.Key("velocity", f, rollup.Minute), 0, 2), nil)
		b.Add("velocity", f, rollup.Minute, rollup.Slice{Table: table, Rows: []int32{0, 1, 2}, To: 120, At0: at0})
		doc, err := b.End()
		add("v1-minutes-"+string(f), doc, err)
	}
	half := head(rollup.Key("velocity", rollup.Last, rollup.HalfHour), 0, 24)
	half.Grid = rollup.HalfHour
	b.Begin(half, nil)
	coarse := rollup.HalfHours(table, rollup.AllFamilies)
	b.Add("velocity", rollup.Last, rollup.HalfHour, rollup.Slice{Table: coarse, Rows: []int32{0, 2}, To: 48, At0: at0})
	doc, err := b.End()
	add("v1-half-hours", doc, err)
	b.Begin(head(rollup.CorrectionsKey, 3, 4), seriesIndex[:3])
	for _, f := range rollup.AllFamilies {
		b.Add("velocity", f, rollup.Minute, rollup.Slice{Table: table, Rows: []int32{0, 2}, From: 180, To: 240})
		b.Add("velocity", f, rollup.HalfHour, rollup.Slice{Table: coarse, Rows: []int32{0, 2}, From: 6, To: 8})
	}
	doc, err = b.End()
	add("v1-correction", doc, err)
	add("v1-series-index", rollup.AppendSeriesIndex(nil, head(rollup.SeriesIndexKey, 0, 24), seriesIndex), nil)
	return out
}

// Documents of released versions stay readable, and what is written does not change unseen.
func TestGoldenDocuments(t *testing.T) {
	for name, doc := range goldenDocuments(t) {
		path := filepath.Join("testdata", name+".json")
		if *update {
			require.NoError(t, os.WriteFile(path, doc, 0o644))
		}
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(golden), string(doc), name)
		d, err := rollup.Parse(golden)
		require.NoError(t, err)
		for i := range d.Sections {
			table := rollup.Table{Rows: d.Sections[i].Series, Buckets: d.Sections[i].Buckets}
			require.NoError(t, d.Sections[i].Decode(&table, d.Sections[i].Has()))
		}
	}
	l, err := manifest().Encode()
	require.NoError(t, err)
	path := filepath.Join("testdata", "v1-manifest.json")
	if *update {
		require.NoError(t, os.WriteFile(path, l, 0o644))
	}
	golden, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(golden), string(l))
}

// The service adds properties, and gives them in another order.
func TestUnknownPropertiesAreSkipped(t *testing.T) {
	doc := goldenDocuments(t)["v1-minutes-L"]
	doc = bytes.Replace(doc, []byte(`{"id"`), []byte(`{"_rid":"x","_ts":1795100000,"_etag":"\"7\"","_x":{"a":[1]},"id"`), 1)
	d, err := rollup.Parse(doc)
	require.NoError(t, err)
	require.EqualValues(t, 1795100000, d.Stored)
	require.Equal(t, `"7"`, d.ETag)
}

// decodeAll decodes what a document has, and bounds what that takes.
func decodeAll(doc []byte) error {
	if _, err := rollup.ParseManifest(doc); err == nil {
		return nil
	}
	d, err := rollup.Parse(doc)
	if err != nil {
		return err
	}
	for i := range d.Sections {
		s := &d.Sections[i]
		_, places := s.SeriesNumbers()
		_, at0 := s.SamplesAtMidnight()
		table := rollup.Table{Rows: s.Series, Buckets: s.Buckets}
		if err := errors.Join(places, at0, s.Decode(&table, s.Has())); err != nil {
			return err
		}
	}
	return nil
}

// Damage is an error or has no effect; it breaks nothing.
func TestDamagedDocuments(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	refused := 0
	golden := goldenDocuments(t)
	for name, doc := range golden {
		for range 200 {
			bad := slices.Clone(doc)
			for range 1 + rnd.IntN(3) {
				bad[rnd.IntN(len(bad))] = byte(rnd.IntN(256))
			}
			if err := decodeAll(bad); err != nil {
				require.ErrorIs(t, err, rollup.ErrCorrupt, name)
				refused++
			}
		}
		require.ErrorIs(t, decodeAll(doc[:len(doc)/2]), rollup.ErrCorrupt)
	}
	require.Greater(t, refused, 100*len(golden))
}

func FuzzDocuments(f *testing.F) {
	for _, doc := range goldenDocuments(f) {
		f.Add(doc)
	}
	l, err := manifest().Encode()
	require.NoError(f, err)
	f.Add(l)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if err := decodeAll(doc); err != nil {
			require.ErrorIs(t, err, rollup.ErrCorrupt)
		}
	})
}

// A value takes about a character, as long as devices report as devices do.
func TestRollupSize(t *testing.T) {
	const devices = 100
	rnd := rand.New(rand.NewPCG(5, 6))
	table := rollup.NewTable(devices, 60, rollup.AllFamilies)
	rows := make([]int32, devices)
	for i := range rows {
		rows[i] = int32(i)
		var s rollup.Samples
		v := 60.0
		for at := day.Start() + 1 + rnd.Int64N(10_000); at < day.Start()+3_600_000; at += 10_000 {
			v = math.Max(0, v+float64(rnd.IntN(21)-10)/10)
			s.Times, s.Values = append(s.Times, at), append(s.Values, math.Round(v*10)/10)
		}
		s.Fill(table, i, day, 0, 1)
	}
	doc := rollup.AppendSection(nil, "velocity", rollup.Last, rollup.Slice{Table: table, Rows: rows, To: 60})
	perValue := float64(len(doc)) / (devices * 60)
	t.Logf("%.2f bytes a value", perValue)
	require.Less(t, perValue, 1.4)
}

// A builder makes nothing that is beyond what is read.
func TestBuilderRefusesBeyondLimits(t *testing.T) {
	rows := func(n int) (out []int32) {
		for i := range n {
			out = append(out, int32(i))
		}
		return out
	}
	h := rollup.Header{TenantShard: "acme~cg", Key: rollup.CorrectionsKey, Day: day, Batch: "b1", To: 24,
		Grid: rollup.HalfHour}
	h.ID = rollup.ID(h.Key, day, 0, 0, h.Batch)
	makes := func(family rollup.Family, n int, table *rollup.Table, sections int) error {
		var b rollup.Builder
		b.Begin(h, seriesIndex)
		for range sections {
			b.Add("m", family, rollup.HalfHour, rollup.Slice{Table: table, Rows: rows(n), To: table.Buckets})
		}
		doc, err := b.End()
		if err == nil {
			_, err = rollup.Parse(doc)
		}
		return err
	}
	table := func(rows int) *rollup.Table { return rollup.NewTable(rows, 48, rollup.AllFamilies) }
	const most = rollup.MaxCells / 48
	require.NoError(t, makes(rollup.Last, most, table(most), 1))
	require.ErrorIs(t, makes(rollup.Last, most+1, table(most+1), 1), rollup.ErrTooLarge)
	few := table(1)
	few.Resets[0] = []rollup.Reset{{Bucket: 3, Values: make([]float64, rollup.MaxResets)}}
	require.NoError(t, makes(rollup.First, 1, few, 1))
	few.Resets[0] = append(few.Resets[0], rollup.Reset{Bucket: 4, Values: make([]float64, 1)})
	require.ErrorIs(t, makes(rollup.First, 1, few, 1), rollup.ErrTooLarge)
	require.NoError(t, makes(rollup.Last, 1, few, 1), "that has none")
	require.NoError(t, makes(rollup.Extremes, 1, table(1), 1<<12))
	require.ErrorIs(t, makes(rollup.Extremes, 1, table(1), 1<<12+1), rollup.ErrTooLarge)
}
