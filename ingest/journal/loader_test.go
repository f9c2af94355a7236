package journal_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"binnacle/ingest/journal"

	"github.com/stretchr/testify/require"
)

// topic is one partition of a journal: values from an offset on.
type topic struct {
	begin  int64
	values [][]byte
}

func (p *topic) end() int64 { return p.begin + int64(len(p.values)) }

// append lands records and returns the offset of the first one.
func (p *topic) append(records ...journal.Record) int64 {
	at := p.end()
	for i := range records {
		p.values = append(p.values, records[i].Append(nil))
	}
	return at
}

// load takes all that a commit counts on, and returns the blocks that count, by their offset.
func (p *topic) load(c journal.Commit, floor int64) (map[int64]journal.Record, error) {
	l, err := journal.NewLoader(c, floor, p.begin, p.end())
	if err != nil {
		return nil, err
	}
	out := make(map[int64]journal.Record)
	for !l.Done() {
		at := l.Next()
		r, ok, err := l.Take(at, p.values[at-p.begin])
		if err != nil {
			return nil, err
		}
		if ok {
			out[at] = r
		}
	}
	return out, nil
}

func block(nonce journal.Nonce, first, through int64) journal.Record {
	return journal.Record{
		Nonce: nonce, Stream: 1, Tenant: "acme", Device: "m1", First: first, Through: through, Rows: int(through - first + 1),
		Data: fmt.Appendf(nil, "%d..%d", first, through),
	}
}

func linked(r journal.Record, offset int64, nonce journal.Nonce) journal.Record {
	r.Linked, r.Before = true, journal.Link{Offset: offset, Nonce: nonce}
	return r
}

func TestLoaderTakesBlocksInRange(t *testing.T) {
	var p topic
	p.append(block(1, 0, 9), block(1, 10, 19), linked(block(2, 20, 29), 1, 1), linked(block(3, 30, 39), 2, 2))
	other := block(4, 12, 12)
	other.Stream = 9
	p.append(other, linked(block(5, 40, 49), 3, 3))
	got, err := p.load(journal.Commit{Stream: 1, F: 35, From: 1, To: 6, Mark: 5}, 15)
	require.NoError(t, err)
	require.Len(t, got, 3, "one lies below the floor, one is of another stream, one lies at or above F")
	require.Equal(t, block(1, 10, 19), got[1])
	require.Equal(t, int64(20), got[2].First)
	require.Equal(t, int64(30), got[3].First, "across F")
}

func TestLoaderProgress(t *testing.T) {
	var p topic
	p.append(block(1, 0, 9), block(1, 10, 19), block(1, 20, 29))
	l, err := journal.NewLoader(journal.Commit{Stream: 1, F: 30, From: 1, To: 3, Mark: 1}, 0, 0, 3)
	require.NoError(t, err)
	_, ok, err := l.Take(0, p.values[0])
	require.NoError(t, err)
	require.False(t, ok, "a fetch begins before what counts")
	require.Equal(t, int64(2), l.Left())
	for at := int64(1); at < 3; at++ {
		require.False(t, l.Done())
		_, ok, err = l.Take(at, p.values[at])
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.True(t, l.Done())
	require.Zero(t, l.Left())
	require.Equal(t, journal.Link{Offset: 2, Nonce: 1}, l.Last())
}

// Each way to lose a part of the journal is noticed (rules J4, J6).
func TestLoaderDetectsLoss(t *testing.T) {
	full := func() *topic {
		p := &topic{}
		p.append(block(1, 0, 9), block(1, 10, 19))
		p.append(linked(block(2, 20, 29), 1, 1))
		p.append(linked(block(3, 30, 39), 2, 2))
		return p
	}
	c := journal.Commit{Stream: 1, F: 40, From: 1, To: 4, Mark: 3}
	for name, damage := range map[string]func(p *topic){
		"its head is gone":          func(p *topic) { p.begin, p.values = 2, p.values[2:] },
		"its tail is gone":          func(p *topic) { p.values = p.values[:3] },
		"it was made anew":          func(p *topic) { p.values = nil },
		"another record at the end": func(p *topic) { p.values = p.values[:3]; p.append(block(8, 30, 39)) },
		"a link into another append": func(p *topic) {
			p.values = p.values[:2]
			p.append(block(7, 20, 29), linked(block(3, 30, 39), 2, 2))
		},
		"a link forward": func(p *topic) {
			p.values = p.values[:3]
			p.append(linked(block(3, 30, 39), 7, 2))
		},
		"a record that is none": func(p *topic) { p.values[2] = []byte("hello") },
	} {
		p := full()
		_, err := p.load(c, 0)
		require.NoError(t, err)
		damage(p)
		_, err = p.load(c, 0)
		require.ErrorIs(t, err, journal.ErrNotWhole, name)
	}
	l, err := journal.NewLoader(c, 0, 0, 4)
	require.NoError(t, err)
	_, _, err = l.Take(2, full().values[2])
	require.ErrorContains(t, err, "goes on at 2", "a record is missing")
	_, err = journal.NewLoader(c, 41, 0, 4)
	require.ErrorIs(t, err, journal.ErrNotWhole, "the floor was set above F")
}

func TestBlockIndexLowestOffset(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 2))
	var blocks journal.BlockIndex
	there := map[int64]bool{}
	at := int64(1_000_000)
	for range 5_000 {
		if n := 1 + random.IntN(90); random.IntN(2) == 0 {
			require.False(t, blocks.Appended(at, n, 1))
			for range n {
				there[at] = true
				at++
			}
			at += random.Int64N(200) // others append too
		}
		for _, x := range slices.Sorted(maps.Keys(there)) {
			if random.IntN(3) == 0 {
				blocks.Remove(x)
				delete(there, x)
			}
		}
		blocks.Remove(at + 5)
		c := blocks.Commit(1, 0)
		require.Equal(t, len(there) > 0, c.Counts(), "seed %d", seed)
		if c.Counts() {
			require.Equal(t, slices.Min(slices.Collect(maps.Keys(there))), c.From, "seed %d", seed)
		}
	}
}

// What was loaded may begin below what this writer has appended.
func TestBlockIndexResumesAfterLoad(t *testing.T) {
	var blocks journal.BlockIndex
	_, ok := blocks.Before()
	require.False(t, ok)
	blocks.Loaded(500)
	blocks.Loaded(130)
	blocks.Resume(journal.Link{Offset: 600, Nonce: 4})
	require.Equal(t, journal.Commit{Stream: 2, F: 9, From: 130, To: 601, Mark: 4}, blocks.Commit(2, 9))
	require.False(t, blocks.Appended(700, 2, 5))
	blocks.Remove(130)
	require.Equal(t, journal.Commit{Stream: 2, F: 9, From: 500, To: 702, Mark: 5}, blocks.Commit(2, 9))
	last, ok := blocks.Before()
	require.True(t, ok)
	require.Equal(t, journal.Link{Offset: 701, Nonce: 5}, last)
	require.True(t, blocks.Appended(650, 1, 6), "the end was lost")
	require.False(t, blocks.Commit(2, 9).Counts(), "what has landed names an append that is gone")
	require.False(t, blocks.Appended(651, 1, 7))
	require.Equal(t, journal.Commit{Stream: 2, F: 9, From: 651, To: 652, Mark: 7}, blocks.Commit(2, 9))
}

// Commits demand the journal up to what was read of another writer; the next append names that, and one that is on its
// way may land before it.
func TestBlockIndexFollowsAnotherWriter(t *testing.T) {
	var blocks journal.BlockIndex
	others := journal.Link{Offset: 60, Nonce: 7}
	require.False(t, blocks.Appended(50, 1, 5))
	blocks.Loaded(55)
	blocks.Follow(others)
	require.Equal(t, journal.Commit{Stream: 2, F: 9, From: 50, To: 61, Mark: 7}, blocks.Commit(2, 9))
	require.False(t, blocks.Appended(52, 2, 5), "it was on its way")
	require.Equal(t, journal.Commit{Stream: 2, F: 9, From: 50, To: 61, Mark: 7}, blocks.Commit(2, 9))
	last, ok := blocks.Before()
	require.True(t, ok)
	require.Equal(t, others, last)
	require.True(t, blocks.Appended(58, 1, 6), "the end was lost")
	require.False(t, blocks.Commit(2, 9).Counts())
}
