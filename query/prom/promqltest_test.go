//go:build full

package prom_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"
	"binnacle/sharding"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// The suite of Prometheus holds over the whole path, for all blocks of its files that are about floats: of what is
// loaded one half lies in chunks and one in heads, sample by sample. Its queries answer the same with pushdowns as
// without.
func TestPrometheusSuiteWithPushdowns(t *testing.T) {
	engine := suiteWithPushdowns(t, newSuiteStorage)
	require.Greater(t, engine.pushed, 500)
	require.Zero(t, engine.fromRollups)
}

// And it holds with all that is loaded in chunks, and rollups made of it after each load.
func TestPrometheusSuiteFromRollups(t *testing.T) {
	engine := suiteWithPushdowns(t, newRollupStorage)
	require.Greater(t, engine.pushed, 500)
	require.Greater(t, engine.fromRollups, 200)
}

// suiteWithPushdowns runs all files. Names are removed as the API removes them, by the function that does; three files
// expect them to be removed at the end of a query.
func suiteWithPushdowns(t *testing.T, stored func(testing.TB) storage.Storage) *suitePushdowns {
	later := []string{"histograms.test", "name_label_dropping.test", "type_and_unit.test"}
	plain := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{
		MaxSamples: promqltest.DefaultMaxSamplesPerQuery, Timeout: 100 * time.Second, LookbackDelta: 5 * time.Minute,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() }, EnableAtModifier: true,
		EnableNegativeOffset: true, Parser: parser.NewParser(promqltest.TestParserOpts),
	})
	engine := &suitePushdowns{t: t, plain: plain}
	evals := suite(t, engine, stored, func(name string) bool { return !slices.Contains(later, name) })
	engine.answers = promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	evals += suite(t, engine, stored, func(name string) bool { return slices.Contains(later, name) })
	require.Greater(t, evals, 850)
	t.Logf("%d queries, %d with pushdowns, %d from rollups, %d changing", engine.queries, engine.pushed,
		engine.fromRollups, engine.changing)
	require.Less(t, engine.changing, 10)
	return engine
}

// suite runs the files that it gets, and returns how many evaluations they have.
func suite(t *testing.T, engine promql.QueryEngine, stored func(testing.TB) storage.Storage,
	wanted func(file string) bool) (evals int) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}",
		"github.com/prometheus/prometheus/promql/promqltest").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "*.test"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		if !wanted(name) {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		kept := floats(string(text))
		evals += strings.Count(kept, "\neval ")
		t.Run(name, func(t *testing.T) { promqltest.RunTestWithStorage(t, kept, engine, stored) })
	}
	t.Logf("%d evaluations", evals)
	return evals
}

// suitePushdowns evaluates over suiteStorage with pushdowns, and without, which must not differ.
type suitePushdowns struct {
	t               *testing.T
	plain           promql.QueryEngine
	answers         promql.QueryEngine // that the suite sees; nil for pushdowns
	queries, pushed int
	fromRollups     int // answered from rollups, if not alone
	changing        int // that the engine itself answers now so, now so
}

func (e *suitePushdowns) NewInstantQuery(ctx context.Context, s storage.Queryable, opts promql.QueryOpts, text string,
	at time.Time) (promql.Query, error) {
	return e.query(ctx, s, text, func(engine promql.QueryEngine) (promql.Query, error) {
		return engine.NewInstantQuery(ctx, s, opts, text, at)
	})
}

func (e *suitePushdowns) NewRangeQuery(ctx context.Context, s storage.Queryable, opts promql.QueryOpts, text string,
	start, end time.Time, step time.Duration) (promql.Query, error) {
	return e.query(ctx, s, text, func(engine promql.QueryEngine) (promql.Query, error) {
		return engine.NewRangeQuery(ctx, s, opts, text, start, end, step)
	})
}

func (e *suitePushdowns) query(ctx context.Context, s storage.Queryable, text string,
	ask func(promql.QueryEngine) (promql.Query, error)) (promql.Query, error) {
	pushdowns := prom.Pushdowns{QueryEngine: e.plain, Over: s.(*suiteStorage).readings}
	e.queries++
	if e.answers != nil {
		if _, changing := alike(ctx, e.t, ask, e.plain, pushdowns, text); changing {
			e.changing++
		}
		e.count(pushdowns)
		return ask(e.answers)
	}
	plain := func() (promql.Query, error) { return ask(e.plain) }
	want := describe(ctx, plain, text)
	compare := func(got string) {
		if differs(ctx, e.t, plain, text, want, got) {
			e.changing++
		}
	}
	q, err := ask(pushdowns)
	if err != nil {
		compare("refused: " + err.Error())
		return q, err
	}
	return &comparedQuery{Query: q, compare: func(res *promql.Result) {
		e.count(pushdowns)
		compare(described(res, text))
	}}, nil
}

func (e *suitePushdowns) count(p prom.Pushdowns) {
	if p.Count() > 0 {
		e.pushed++
	}
	if cost := p.Over.Cost(); cost.Rollups+cost.RollupsCached > 0 {
		e.fromRollups++
	}
}

// comparedQuery has what the suite gets compared with what the engine answers plainly.
type comparedQuery struct {
	promql.Query
	compare func(*promql.Result)
}

func (q *comparedQuery) Exec(ctx context.Context) *promql.Result {
	res := q.Query.Exec(ctx)
	q.compare(res)
	return res
}

// floats is the blocks of a file that have neither native histograms nor start timestamps, which readings don't have.
func floats(file string) string {
	var kept []string
	for _, block := range strings.Split(file, "\nclear") {
		if !strings.Contains(block, "{{") && !strings.Contains(block, "nhcb") && !strings.Contains(block, "@st") {
			kept = append(kept, block)
		}
	}
	return strings.Join(kept, "\nclear")
}

// suiteDevice is the device of all series of the suite, which doesn't know of devices.
const suiteDevice = "suite"

// suiteStorage is a world that the suite loads series into, as readings of one device.
type suiteStorage struct {
	storage.Storage // of what the suite does not call
	world           *querytest.World
	readings        *prom.Readings
	offset          int64
	open            []querytest.Record         // of heads
	seal            func(days []telemetry.Day) // makes rollups; nil: there are none, and half of all is in heads
}

func newSuiteStorage(t testing.TB) storage.Storage { return suiteStorageOf(t, nil) }

func suiteStorageOf(t testing.TB, stored store.RollupReader) *suiteStorage {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
		Rollups: stored, Now: func() time.Time { return w.Now }})
	require.NoError(t, err)
	w.Heads.Set(store.PartitionHead{Stream: 1, Partition: 1})
	return &suiteStorage{world: w, readings: prom.Over(q, "acme")}
}

func newRollupStorage(t testing.TB) storage.Storage {
	stored := storetest.NewRollups(t)
	s := suiteStorageOf(t, stored)
	stored.Now = func() time.Time { return s.world.Now }
	acme := s.world.Tenant("acme")
	batches := 0
	w, err := rollups.New(rollups.Config{
		Chunks: s.world.Store, Rollups: stored, Tenants: func() []tenant.Tenant { return []tenant.Tenant{acme} },
		Now: stored.Now, Sleep: func(context.Context, time.Duration) error { return nil },
		Name: func() string { batches++; return fmt.Sprintf("b%d", batches) },
	})
	require.NoError(t, err)
	s.seal = func(days []telemetry.Day) {
		s.world.Now = s.world.Now.Add(10 * time.Minute)
		for _, day := range days {
			stored.CreateContainer(sharding.RollupsContainer(sharding.Container("", sharding.Month.Of(day))))
			for _, target := range w.TargetsOf(day) {
				if _, err := w.Round(t.Context(), target); !errors.Is(err, store.ErrNoContainer) {
					require.NoError(t, err)
				}
			}
		}
		s.world.Now = s.world.Now.Add(10 * time.Minute)
	}
	return s
}

func (s *suiteStorage) Close() error { return nil }

func (s *suiteStorage) StartTime() (int64, error) { return 0, nil }

func (s *suiteStorage) AppenderV2(context.Context) storage.AppenderV2 { return &suiteAppender{s: s} }

// Querier implements storage.Queryable, without the label that the suite doesn't expect.
func (s *suiteStorage) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.readings.Querier(mint, maxt)
	return suiteQuerier{q}, err
}

type suiteQuerier struct{ storage.Querier }

func (q suiteQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints,
	m ...*labels.Matcher) storage.SeriesSet {
	return suiteSet{q.Querier.Select(ctx, sorted, h, m...)}
}

func (q suiteQuerier) LabelNames(ctx context.Context, h *storage.LabelHints, m ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	names, warnings, err := q.Querier.LabelNames(ctx, h, m...)
	return slices.DeleteFunc(names, func(n string) bool { return n == "device" }), warnings, err
}

type suiteSet struct{ storage.SeriesSet }

func (s suiteSet) At() storage.Series { return suiteSeries{s.SeriesSet.At()} }

type suiteSeries struct{ storage.Series }

func (s suiteSeries) Labels() labels.Labels {
	return labels.NewBuilder(s.Series.Labels()).Del("device").Labels()
}

type suiteAppender struct {
	s       *suiteStorage
	samples []querytest.Record
}

func (a *suiteAppender) Append(_ storage.SeriesRef, l labels.Labels, _, at int64, v float64, _ *histogram.Histogram,
	_ *histogram.FloatHistogram, _ storage.AppendV2Options) (storage.SeriesRef, error) {
	var set telemetry.Labels
	l.Range(func(l labels.Label) {
		if l.Name != model.MetricNameLabel {
			set = append(set, telemetry.Label{Name: l.Name, Value: l.Value})
		}
	})
	a.samples = append(a.samples, record(0, suiteDevice, time.UnixMilli(at), telemetry.NewLabels(set),
		float(l.Get(model.MetricNameLabel), v)))
	return 1, nil
}

func (a *suiteAppender) Rollback() error { return nil }

func (a *suiteAppender) Commit() error {
	slices.SortStableFunc(a.samples, func(x, y querytest.Record) int { return cmp.Compare(x.Time, y.Time) })
	var days [][]querytest.Record
	for i, r := range a.samples {
		r.Position.Offset = a.s.offset
		a.s.offset++
		if a.s.seal == nil && i%2 == 1 {
			r.Position.Partition = 1
			a.s.open = append(a.s.open, r)
			continue
		}
		if n := len(days); n == 0 || telemetry.DayOf(days[n-1][0].Time) != telemetry.DayOf(r.Time) {
			days = append(days, nil)
		}
		days[len(days)-1] = append(days[len(days)-1], r)
	}
	for _, day := range days {
		a.s.world.Chunk(day...)
	}
	if a.s.seal != nil {
		var sealed []telemetry.Day
		for _, day := range days {
			sealed = append(sealed, telemetry.DayOf(day[0].Time))
		}
		a.s.seal(sealed)
	}
	a.s.world.Heads.SetOnly(store.PartitionHead{Stream: 1, Partition: 1, Position: a.s.offset}, a.s.open...)
	return nil
}
