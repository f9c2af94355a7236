package chunk_test

import (
	"testing"

	"binnacle/binning/chunk"

	"github.com/stretchr/testify/require"
)

// requireSame holds a document against the frame that it was made of.
func requireSame(t testing.TB, f chunk.Frame, doc []byte) {
	t.Helper()
	c, err := chunk.Parse(doc)
	require.NoError(t, err)
	got, err := c.Frame(nil)
	require.NoError(t, err)
	require.Equal(t, f, got)
}

func TestOddFloatsSurvive(t *testing.T) {
	odd := oddFloats()
	for n := 1; n <= len(odd); n++ {
		g := chunk.Group{Columns: []chunk.Column{{Metric: "x", Kind: 1, Bits: odd[:n]}}}
		for i := range n {
			g.Times = append(g.Times, int64(i)*i64(i)+5)
		}
		f := chunk.Frame{Groups: []chunk.Group{g}}
		doc, err := chunk.Encode(headerOf(f), f)
		require.NoError(t, err)
		requireSame(t, f, doc)
	}
}

func i64(i int) int64 { return int64(i) }
