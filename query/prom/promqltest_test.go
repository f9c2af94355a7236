package prom_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// The suite of Prometheus holds over the whole path, for all blocks of its files that are about floats: of what is
// loaded one half lies in chunks and one in heads, sample by sample.
func TestTheSuiteOfPrometheus(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}",
		"github.com/prometheus/prometheus/promql/promqltest").Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "*.test"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	evals := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		kept := floats(string(text))
		evals += strings.Count(kept, "\neval ")
		t.Run(filepath.Base(file), func(t *testing.T) {
			engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
			promqltest.RunTestWithStorage(t, kept, engine, newSuiteStorage)
		})
	}
	t.Logf("%d evaluations", evals)
	require.Greater(t, evals, 850)
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
	querier         *query.Querier
	offset          int64
	open            []querytest.Record // of heads
}

func newSuiteStorage(t testing.TB) storage.Storage {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
		Now: func() time.Time { return w.Now }})
	require.NoError(t, err)
	w.Heads.Set(store.PartitionHead{Stream: 1, Partition: 1})
	return &suiteStorage{world: w, querier: q}
}

func (s *suiteStorage) Close() error { return nil }

func (s *suiteStorage) StartTime() (int64, error) { return 0, nil }

func (s *suiteStorage) AppenderV2(context.Context) storage.AppenderV2 { return &suiteAppender{s: s} }

// Querier implements storage.Queryable, without the label that the suite doesn't expect.
func (s *suiteStorage) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := prom.Over(s.querier, "acme").Querier(mint, maxt)
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
		if i%2 == 1 {
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
	a.s.world.Heads.Become(store.PartitionHead{Stream: 1, Partition: 1, Position: a.s.offset}, a.s.open...)
	return nil
}
