package deadletter_test

import (
	"math/rand/v2"
	"testing"

	"binnacle/internal/stream/deadletter"

	"github.com/stretchr/testify/require"
)

// Sets of elements do what sets do, and come back from what a header has of them.
func TestElementsAreSets(t *testing.T) {
	const seed, most = 7, 40
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	random := func() (e deadletter.Elements, has [most]bool) {
		for i := 0; i < most; i++ {
			if has[i] = rnd.IntN(3) > 0; has[i] {
				e.Add(deadletter.Run{First: i, Last: i})
			}
		}
		return e, has
	}
	for range 300 {
		a, inA := random()
		b, inB := random()
		both, without, overlaps := a.With(b), a.Without(b), false
		for i := range most {
			require.Equal(t, inA[i], a.Has(i))
			require.Equal(t, inA[i] || inB[i], both.Has(i))
			require.Equal(t, inA[i] && !inB[i], without.Has(i))
			overlaps = overlaps || inA[i] && inB[i]
		}
		require.Equal(t, overlaps, a.Overlaps(b))
		for _, e := range []deadletter.Elements{a, both, without} {
			if len(e) > 0 {
				got, err := deadletter.ParseElements(e.String())
				require.NoError(t, err)
				require.Equal(t, e, got)
			}
		}
	}
	for _, bad := range []string{"", "a", "1,0", "2-1", "0-2,2", "-1", "1-", ",", "0-9223372036854775807",
		"0,2-2147483647"} {
		_, err := deadletter.ParseElements(bad)
		require.Error(t, err, bad)
	}
}

// Of dead letters of one record, those that come later lose the elements that earlier ones have.
func TestReduce(t *testing.T) {
	taken := map[deadletter.ID]deadletter.Elements{}
	letter := func(text string) *deadletter.DeadLetter {
		all, err := deadletter.ParseElements(text)
		require.NoError(t, err)
		return &deadletter.DeadLetter{Offset: 7, Published: 1, Index: all[0].First, Elements: all}
	}
	for _, c := range []struct{ text, left string }{{"0-3", "0-3"}, {"0-9", "4-9"}, {"2-5", ""}, {"1,12", "12"}} {
		l := letter(c.text)
		require.Equal(t, c.left != "", l.Reduce(taken))
		require.Equal(t, c.left, l.Elements.String())
	}
}
