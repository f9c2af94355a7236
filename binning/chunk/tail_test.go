package chunk_test

import (
	"testing"

	"binnacle/binning/chunk"

	"github.com/stretchr/testify/require"
)

func TestTailOfAnyVersion(t *testing.T) {
	day := chunk.ID{Day: 20777, Stream: 1, Partition: 3, Number: 17}
	for doc, want := range map[string]chunk.Tail{
		`{"id":"20261120.1.00003.000017","v":99,"through":1306000,"from":5,"to":9,"body":{"new":[1]}}`: {ID: day,
			Through: 1306000, From: 5, To: 9},
		`{"to":9,"from":9,"through":0,"id":"20261120.1.00003.000017"}`: {ID: day, From: 9,
			To: 9},
	} {
		got, err := chunk.ParseTail([]byte(doc))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, doc := range []string{``, `[]`, `{"id":"20261120.1.00003.000017"}`, `{"id":"x","through":3,"from":1,"to":2}`,
		`{"id":"20261120.1.00003.000017","through":-1,"from":1,"to":2}`,
		`{"id":"20261120.1.00003.000017","through":1.5,"from":1,"to":2}`,
		`{"id":"20261120.1.00003.000017","through":1,"from":3,"to":2}`} {
		_, err := chunk.ParseTail([]byte(doc))
		require.ErrorIs(t, err, chunk.ErrCorrupt, doc)
	}
}
