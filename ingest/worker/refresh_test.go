package worker_test

import (
	"context"
	"testing"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"

	"github.com/stretchr/testify/require"
)

// refreshes is a walk with a querier that asks the same question all through it: of the process that began last, and of
// the store where rule R8 does not let it go unasked. Processes that have lost the partition do not answer, and go on.
type refreshes struct {
	*walk
	querier   *query.Querier
	directory *control.Directory // of queriers
	all       []admit.Record     // what devices will have published in the end

	scans    int // of the store
	unasked  int // answers that took none
	explains int // of them, those in which the store had something new
	stored   int // chunks that were stored when it answered last

	decoder *decode.Decoder
	owed    map[ingesttest.Series]float64 // what the log has below upto
	upto    int64
}

func newRefreshes(t *testing.T, seed uint64, journaled bool) *refreshes {
	r := &refreshes{walk: newWalk(t, seed, 400, journaled, tenant.IngestLimits{}), decoder: decode.New(decode.Options{}),
		owed: map[ingesttest.Series]float64{}}
	r.all, r.log = r.log, r.log[:20]
	r.Chunks.Now = func() time.Time { return r.now }
	r.directory = control.NewDirectory(control.DirectoryConfig{Documents: r.Docs, Now: r.Chunks.Now})
	r.querier = r.newQuerier()
	return r
}

func (r *refreshes) newQuerier() *query.Querier {
	q, err := query.New(query.Config{Reader: r, Heads: r, Directory: r.directory, Catalog: r.Catalog, Now: r.Chunks.Now})
	require.NoError(r.t, err)
	return q
}

// Scan implements store.Reader.
func (r *refreshes) Scan(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
	r.scans++
	return r.Chunks.Scan(ctx, s, yield)
}

// Heads implements store.Heads.
func (r *refreshes) Heads(_ context.Context, req store.HeadRequest) ([]store.PartitionHead, error) {
	return []store.PartitionHead{r.last.HeadRead(req)}, nil
}

// Devices implements store.Heads.
func (r *refreshes) Devices(context.Context, store.ListRequest) ([]store.HeadDevice, error) {
	return nil, nil
}

// CatalogUpdates implements store.Heads.
func (r *refreshes) CatalogUpdates(context.Context, string) (store.HeadUpdates, error) {
	return store.HeadUpdates{}, nil
}

// answer returns the values that a querier answers, and whether they are all.
func (r *refreshes) answer(q *query.Querier) (values map[ingesttest.Series]float64, complete bool) {
	_, err := r.directory.Refresh(context.Background())
	require.NoError(r.t, err)
	values = map[ingesttest.Series]float64{}
	res, err := q.Series(context.Background(), query.Request{Tenant: "acme", Metrics: []string{"a"},
		Range: telemetry.Range{From: start - 2*telemetry.DayMillis, To: start + telemetry.DayMillis}},
		func(c query.Curve) error {
			for _, s := range c.Stretches {
				for i, at := range s.Times {
					series := ingesttest.Series{Device: c.Device, Metric: c.Metric, Time: at}
					values[series] = telemetry.BitsValue(s.Kind, s.Bits[i]).Float()
				}
			}
			return nil
		})
	require.NoError(r.t, err)
	return values, res.Complete
}

// ask checks that each reading below the position of the head is answered, or a later one of its instant; where the
// store was not asked, that one that asks it has the same answer but for readings that the head has not read.
func (r *refreshes) ask() {
	scans, stored, reached := r.scans, len(r.Chunks.Documents()), r.last.Position()
	got, complete := r.answer(r.querier)
	if !complete {
		return
	}
	r.read(reached)
	for s, v := range r.owed {
		if got[s] < v {
			require.GreaterOrEqual(r.t, got[s], v, "%v, position %d, %d scans", s, reached, r.scans-scans)
		}
	}
	if r.scans == scans {
		if r.unasked++; stored > r.stored {
			r.explains++
		}
		cold, _ := r.answer(r.newQuerier())
		for s, v := range got {
			if v > cold[s] {
				require.Equal(r.t, cold[s], v, "%v, position %d, known without the store", s, reached)
			}
		}
		for s, v := range cold {
			if v > got[s] && v < float64(reached) {
				require.Equal(r.t, v, got[s], "%v, position %d, not known without the store", s, reached)
			}
		}
	}
	r.stored = stored
}

// read makes owed the values that the log has below a position. Each value is the offset of its record.
func (r *refreshes) read(position int64) {
	if position < r.upto {
		clear(r.owed)
		r.upto = 0
	}
	for _, record := range r.log[r.upto:position] {
		for _, x := range r.decoder.Decode(decode.Record{Value: record.Value, Timestamp: record.Time}).Readings {
			for _, f := range x.Fields {
				r.owed[ingesttest.Series{Device: x.Device, Metric: f.Metric, Time: x.Time}] = f.Value.Float()
			}
		}
	}
	r.upto = position
}

// cut has the process that began last read on, and store all that it holds: what the querier has seen of that, and what
// it has not.
func (r *refreshes) cut() {
	for range r.rnd.IntN(8) {
		if at := r.last.Position(); at < int64(len(r.log)) {
			r.take(r.last, r.log[at])
		}
	}
	r.now = r.now.Add(21 * time.Second)
	for range 3 { // a look at the store, a chunk, the journal
		for _, j := range append(r.last.jobs, r.last.Due()...) {
			require.NoError(r.t, r.last.Do(context.Background(), j))
		}
		r.last.jobs = nil
	}
}

// A querier that may leave the store unasked (R8) answers what a head owes, whatever others create and whenever.
func TestRefreshesInRandomWalks(t *testing.T) {
	const first = 41_000
	t.Log("seeds from", first)
	unasked, explained := 0, 0
	for seed := range uint64(ingesttest.Rounds(8, 2)) {
		r := newRefreshes(t, first+seed, seed%2 == 0)
		for range 300 {
			r.log = r.all[:min(len(r.log)+r.rnd.IntN(4), len(r.all))]
			r.step()
			switch r.rnd.IntN(16) {
			case 0: // what had to be asked again is due
				r.ask()
				r.now = r.now.Add(6 * time.Minute)
				fallthrough
			case 1, 2, 3, 4, 5, 6, 7:
				r.ask()
			case 8, 9:
				r.cut()
				r.ask()
			}
			if t.Failed() {
				t.Fatalf("seed %d", first+seed)
			}
		}
		unasked, explained = unasked+r.unasked, explained+r.explains
	}
	t.Logf("%d answers without the store, of which %d in spite of chunks that were new", unasked, explained)
	require.Positive(t, unasked)
	require.Positive(t, explained)
}
