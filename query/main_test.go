package query_test

import (
	"slices"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The encoder of pages is made for all, once: not in the bubble of a test.
	if _, _, err := catalog.Encode(catalog.Page{Entries: []catalog.Entry{{Device: "m1"}}}); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// seeds is how many a random test takes: all, or two in short mode, as the race detector makes decoding slow.
func seeds(all uint64) uint64 {
	if testing.Short() {
		return 2
	}
	return all
}

// newQuerier is a querier of a world, with what change makes of its configuration.
func newQuerier(t *testing.T, w *querytest.World, change func(*query.Config)) *query.Querier {
	t.Helper()
	c := query.Config{
		Reader: w.Store, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog, Now: func() time.Time { return w.Now },
	}
	if change != nil {
		change(&c)
	}
	q, err := query.New(c)
	require.NoError(t, err)
	return q
}

// ask answers a request that must not fail.
func ask(t *testing.T, q *query.Querier, r query.Request) ([]query.Row, query.Result) {
	t.Helper()
	rows, res, err := tryAsk(t, q, r)
	require.NoError(t, err)
	return rows, res
}

func tryAsk(t *testing.T, q *query.Querier, r query.Request) (rows []query.Row, res query.Result, err error) {
	res, err = q.Readings(t.Context(), r, func(row query.Row) error {
		row.Values = slices.Clone(row.Values)
		rows = append(rows, row)
		return nil
	})
	return rows, res, err
}

// sameRows compares row by row: a difference of two long answers as a whole takes minutes to print.
func sameRows(t *testing.T, want, got []query.Row) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "row %d", i)
	}
	require.Len(t, got, len(want))
}
