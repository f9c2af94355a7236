package kv_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator/kv"
)

// model is what a store must hold: values and bodies by key.
type model map[string]string

func (m model) require(t *testing.T, from kv.Reader) {
	t.Helper()
	var keys []string
	for e := range from.Ascend(nil, nil) {
		body, err := e.Body(nil)
		require.NoError(t, err)
		require.Equal(t, m[string(e.Key())], string(e.Value())+"|"+string(body), "%s", e.Key())
		keys = append(keys, string(e.Key()))
	}
	require.Equal(t, strings.Join(slices.Sorted(maps.Keys(m)), " "), strings.Join(keys, " "))
	var back []string
	for e := range from.Descend([]byte("k2"), []byte("k6")) {
		back = append(back, string(e.Key()))
	}
	slices.Reverse(back)
	keys = slices.DeleteFunc(keys, func(k string) bool { return k < "k2" || k >= "k6" })
	require.Equal(t, strings.Join(keys, " "), strings.Join(back, " "))
}

// Random batches, restarts with a torn end, and so small segments that they are compacted all the time: the store holds
// what a map holds, and a snapshot stays as it was.
func TestAgainstAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	opts := kv.Options{Dir: t.TempDir(), SegmentBytes: 4000, Fatal: func(err error) { panic(err) }}
	s, err := kv.Open(opts)
	require.NoError(t, err)
	m := model{}
	for round := range 3000 {
		b, own := new(kv.Batch), false
		if own = rnd.IntN(3) == 0; own {
			b = s.Fork()
		}
		changed := maps.Clone(m)
		for range 1 + rnd.IntN(4) {
			change(rnd, b, changed, round)
		}
		before := s.Snapshot()
		if own {
			changed.require(t, b)
		}
		if !own || rnd.IntN(4) > 0 {
			s.Commit(b)
			if round%50 == 0 {
				m.require(t, before)
			}
			m = changed
		}
		if rnd.IntN(20) == 0 {
			m.require(t, s)
		}
		if rnd.IntN(100) == 0 {
			require.NoError(t, s.Close())
			tear(t, opts.Dir, rnd)
			opts.Sync = rnd.IntN(2) == 0
			s, err = kv.Open(opts)
			require.NoError(t, err)
			m.require(t, s)
		}
	}
	files, err := filepath.Glob(filepath.Join(opts.Dir, "*.kv"))
	require.NoError(t, err)
	require.Less(t, len(files), 30, "the log shrinks")
	require.NoError(t, s.Close())
}

func change(rnd *rand.Rand, b *kv.Batch, m model, round int) {
	key := fmt.Sprint("k", rnd.IntN(90))
	switch rnd.IntN(12) {
	case 0:
		low, high := key, fmt.Sprint("k", rnd.IntN(90))
		if rnd.IntN(10) > 0 {
			high = low + "~"
		}
		b.DeleteRange([]byte(low), []byte(high))
		maps.DeleteFunc(m, func(k, _ string) bool { return k >= low && k < high })
	case 1, 2:
		b.Delete([]byte(key))
		delete(m, key)
	default:
		value, body := fmt.Sprint("v", round), strings.Repeat("b", rnd.IntN(200)*rnd.IntN(2))
		b.SetBody([]byte(key), []byte(value), []byte(body))
		m[key] = value + "|" + body
	}
}

// tear adds to the newest segment what a write that was cut off leaves.
func tear(t *testing.T, dir string, rnd *rand.Rand) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.kv"))
	require.NoError(t, err)
	last := slices.Max(files)
	data, err := os.ReadFile(last)
	require.NoError(t, err)
	if len(data) > 100 {
		torn := bytes.Clone(data[16 : 16+rnd.IntN(80)]) // the beginning of a record: often a whole one
		if n := 16 + int(data[20]) + int(data[21])<<8 + int(data[24]) + int(data[25])<<8; len(torn) >= n {
			torn = torn[:n-1]
		}
		require.NoError(t, os.WriteFile(last, append(data, torn...), 0o600))
	}
}

// A record that is damaged before the end of the log is an error, not a loss.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	opts := kv.Options{Dir: dir, SegmentBytes: 500, Fatal: func(err error) { panic(err) }}
	s, err := kv.Open(opts)
	require.NoError(t, err)
	for i := range 20 {
		b := new(kv.Batch)
		b.SetBody(fmt.Append(nil, i), []byte("value"), bytes.Repeat([]byte("x"), 100))
		s.Commit(b)
	}
	require.NoError(t, s.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*.kv"))
	require.NoError(t, err)
	require.Greater(t, len(files), 2)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	data[20]++
	require.NoError(t, os.WriteFile(files[0], data, 0o600))
	_, err = kv.Open(opts)
	require.ErrorContains(t, err, filepath.Base(files[0]))
	require.ErrorContains(t, err, "damaged")
}

// A directory of an earlier release is refused, with what to do.
func TestFormerDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "MANIFEST-000001"), nil, 0o600))
	_, err := kv.Open(kv.Options{Dir: dir})
	require.ErrorIs(t, err, kv.ErrFormer)
}
