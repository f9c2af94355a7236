package spill_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"binnacle/ingest/journal/spill"

	"github.com/stretchr/testify/require"
)

// put keeps b, which must go well.
func put(t *testing.T, s *spill.Store, b []byte) spill.Ref {
	t.Helper()
	r, err := s.Put(b)
	require.NoError(t, err)
	require.Equal(t, len(b), r.Len())
	return r
}

func requireBytes(t *testing.T, s *spill.Store, live, onDisk int) {
	t.Helper()
	l, d := s.Bytes()
	require.EqualValues(t, live, l, "live")
	require.EqualValues(t, onDisk, d, "on disk")
}

func TestRefSize(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(spill.Ref{}), uintptr(16))
}

// A piece is appended to what the caller has.
func TestPutGet(t *testing.T) {
	s := on(t, &disk{room: 1 << 20}, 1000)
	one, none := put(t, s, []byte("one")), put(t, s, nil)
	got, err := s.Get([]byte("and "), one)
	require.NoError(t, err)
	require.Equal(t, "and one", string(got))
	got, err = s.Get(nil, none)
	require.NoError(t, err)
	require.Empty(t, got)
	long := bytes.Repeat([]byte("long"), 1000) // a segment of its own
	r := put(t, s, long)
	got, err = s.Get(got, r)
	require.NoError(t, err)
	require.Equal(t, long, got)
	requireBytes(t, s, 4003, 4003)
}

// A file goes with the last of its pieces, whatever the order, and not before another one is written to.
func TestSegmentIsRemovedWithItsLastRef(t *testing.T) {
	d := &disk{room: 1 << 20}
	s := on(t, d, 100)
	var refs []spill.Ref
	for range 7 { // in segments of 3, 3 and 1
		refs = append(refs, put(t, s, make([]byte, 33)))
	}
	require.Equal(t, 3, d.open)
	requireBytes(t, s, 7*33, 7*33)
	s.Free(refs[4])
	s.Free(refs[0])
	s.Free(refs[2])
	requireBytes(t, s, 4*33, 7*33)
	require.Equal(t, 3, d.open)
	s.Free(refs[1])
	require.Equal(t, 2, d.open)
	requireBytes(t, s, 3*33, 4*33)
	s.Free(refs[6]) // the file that is written to stays
	require.Equal(t, 2, d.open)
	requireBytes(t, s, 2*33, 4*33)
	put(t, s, make([]byte, 33))
	put(t, s, make([]byte, 33))
	s.Free(spill.Ref{})
	requireBytes(t, s, 4*33, 6*33)

	_, err := s.Get(nil, refs[1])
	require.ErrorIs(t, err, spill.ErrLost)
	require.ErrorContains(t, err, "33 bytes at 33 of segment 1 were freed")
	_, err = s.Get(nil, spill.Ref{})
	require.ErrorIs(t, err, spill.ErrLost)
}

// A file that is full goes at once if all in it has been freed while it was written to.
func TestFullSegmentWithoutRefsIsRemoved(t *testing.T) {
	d := &disk{room: 1 << 20}
	s := on(t, d, 100)
	for range 50 {
		s.Free(put(t, s, make([]byte, 60)))
		require.Equal(t, 1, d.open)
		requireBytes(t, s, 0, 60)
	}
}

// What comes back is what was put, or an error that says what has become of it.
func TestDamageIsDetected(t *testing.T) {
	d := &disk{room: 1 << 20}
	s := on(t, d, 1000)
	before, r, after := put(t, s, []byte("before")), put(t, s, []byte("piece")), put(t, s, []byte("after"))
	requireLost := func(r spill.Ref, says string) {
		t.Helper()
		got, err := s.Get([]byte("kept"), r)
		require.ErrorIs(t, err, spill.ErrLost)
		require.ErrorContains(t, err, says)
		require.Equal(t, "kept", string(got))
	}
	for at := range d.files[0].bytes {
		for bit := range 8 {
			d.files[0].bytes[at] ^= 1 << bit
			for _, c := range []struct {
				ref  spill.Ref
				want string
			}{{before, "before"}, {r, "piece"}, {after, "after"}} {
				got, err := s.Get(nil, c.ref)
				if err == nil {
					require.Equal(t, c.want, string(got))
					continue
				}
				require.ErrorIs(t, err, spill.ErrLost)
				require.ErrorContains(t, err, "checksum")
			}
			d.files[0].bytes[at] ^= 1 << bit
		}
	}
	d.files[0].bytes[6]++
	requireLost(r, "5 bytes at 6 of segment 1 have the checksum")
	d.files[0].bytes[6]--

	d.files[0].bytes = d.files[0].bytes[:8]
	requireLost(r, "of 5 bytes at 6 of segment 1 only 2 are there")
	requireLost(after, "of 5 bytes at 11 of segment 1 only 0 are there")
	got, err := s.Get(nil, before)
	require.NoError(t, err)
	require.Equal(t, "before", string(got))

	d.sick = errors.New("the drive makes noises")
	_, err = s.Get(nil, before)
	require.ErrorIs(t, err, d.sick)
	require.NotErrorIs(t, err, spill.ErrLost)
}

// A disk without room refuses what is new, harms nothing that is there, and takes more when there is room again.
func TestFullDisk(t *testing.T) {
	d := &disk{room: 250}
	s := on(t, d, 100)
	held := map[spill.Ref][]byte{}
	fill := func() (err error) {
		for i := byte(0); ; i++ {
			b := bytes.Repeat([]byte{i}, 40)
			r, err := s.Put(b)
			if err != nil {
				return err
			}
			held[r] = b
		}
	}
	requireHeld := func() {
		t.Helper()
		for r, want := range held {
			got, err := s.Get(nil, r)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		requireBytes(t, s, len(held)*40, len(held)*40)
	}
	err := fill()
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "spill 40 bytes")
	require.Len(t, held, 6)
	requireHeld()
	for range 10 {
		require.ErrorIs(t, fill(), syscall.ENOSPC)
	}
	requireHeld()
	require.LessOrEqual(t, d.open, 4, "each refusal takes a file")

	d.room += 100
	require.ErrorIs(t, fill(), syscall.ENOSPC)
	require.Greater(t, len(held), 6)
	requireHeld()
	for r := range held {
		s.Free(r)
		delete(held, r)
	}
	require.ErrorIs(t, fill(), syscall.ENOSPC)
	require.NotEmpty(t, held)
	requireHeld()
}

// Where no file can be made Put says so, and goes on where one can.
func TestCreateFails(t *testing.T) {
	d, fault := &disk{room: 1 << 20}, errors.New("too many open files")
	full := false
	s, err := spill.OpenFiles(func() (spill.File, error) {
		if full {
			return nil, fault
		}
		return d.create()
	}, 100)
	require.NoError(t, err)
	r := put(t, s, make([]byte, 90))
	full = true
	_, err = s.Put(make([]byte, 90))
	require.ErrorIs(t, err, fault)
	requireBytes(t, s, 90, 90)
	full = false
	put(t, s, make([]byte, 90))
	_, err = s.Get(nil, r)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	full = true
	_, err = spill.OpenFiles(func() (spill.File, error) { return nil, fault }, 100)
	require.ErrorIs(t, err, fault)
}

// What is asked of a closed Store fails or does nothing.
func TestClosed(t *testing.T) {
	s := on(t, &disk{room: 1 << 20}, 100)
	r := put(t, s, []byte("x"))
	require.NoError(t, s.Close())
	_, err := s.Put([]byte("y"))
	require.ErrorIs(t, err, os.ErrClosed)
	_, err = s.Get(nil, r)
	require.ErrorIs(t, err, os.ErrClosed)
	s.Free(r)
	requireBytes(t, s, 0, 0)
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A process that dies leaves nothing where a file may lose its name while it is open.
func TestCrashLeavesNoFiles(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("an open file keeps its name here")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := spill.Open(dir)
	require.NoError(t, err)
	r := put(t, s, []byte("piece"))
	require.Empty(t, names(t, dir))
	got, err := s.Get(nil, r)
	require.NoError(t, err)
	require.Equal(t, "piece", string(got))
	require.NoError(t, s.Close())
}

// What an earlier process left goes; what is not ours, and what another process uses, stays.
func TestOpenSweepsOldFiles(t *testing.T) {
	dir := t.TempDir()
	first, err := spill.Open(dir)
	require.NoError(t, err)
	r := put(t, first, []byte("of the first"))
	for _, name := range []string{"spill-123.tmp", "spill-.tmp", "spill-notes.txt", "other.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("left"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "spill-dir.tmp"), 0o700))
	second, err := spill.Open(dir)
	require.NoError(t, err)
	require.Subset(t, names(t, dir), []string{"other.tmp", "spill-dir.tmp", "spill-notes.txt"})
	require.NotContains(t, names(t, dir), "spill-123.tmp")
	require.NotContains(t, names(t, dir), "spill-.tmp")
	require.NoError(t, second.Close())
	got, err := first.Get(nil, r)
	require.NoError(t, err)
	require.Equal(t, "of the first", string(got))
	require.NoError(t, first.Close())
	require.Equal(t, []string{"other.tmp", "spill-dir.tmp", "spill-notes.txt"}, names(t, dir))
}

// Where the name of an open file can't go, it goes when the file is closed.
func TestNamedFileIsRemovedOnClose(t *testing.T) {
	dir := t.TempDir()
	s, err := spill.OpenFiles(func() (spill.File, error) {
		return spill.Create(dir, func(string) error { return fs.ErrPermission })
	}, 100)
	require.NoError(t, err)
	r := put(t, s, make([]byte, 90))
	put(t, s, make([]byte, 90))
	require.Len(t, names(t, dir), 2)
	s.Free(r)
	require.Len(t, names(t, dir), 1)
	require.NoError(t, s.Close())
	require.Empty(t, names(t, dir))

	swept := func(name string) error { // by another process, before we come to it
		require.NoError(t, os.Remove(name))
		return os.Remove(name)
	}
	f, err := spill.Create(dir, swept)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A directory that takes no files is known at the start.
func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := spill.Open(file)
	require.ErrorContains(t, err, "open spill")
}

// A walk at random against a map, by several at once, while others read what they have put: each piece comes back as it
// was put, and the counts are those of the map.
func TestRandomWalk(t *testing.T) {
	const walkers, steps = 4, 1500
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	s, err := spill.OpenFiles(func() (spill.File, error) { return spill.Create(dir, os.Remove) }, 10_000)
	require.NoError(t, err)
	held := make([]map[spill.Ref][]byte, walkers)
	var all sync.WaitGroup
	for i := range walkers {
		held[i] = map[spill.Ref][]byte{}
		all.Go(func() { walk(t, s, rand.New(rand.NewPCG(seed, uint64(i))), steps, held[i]) })
	}
	all.Wait()
	live := 0
	for _, h := range held {
		for r, want := range h {
			live += len(want)
			got, err := s.Get(nil, r)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	l, onDisk := s.Bytes()
	require.EqualValues(t, live, l)
	require.GreaterOrEqual(t, onDisk, l)
	for _, h := range held {
		for r := range h {
			s.Free(r)
		}
	}
	l, onDisk = s.Bytes()
	require.Zero(t, l)
	require.LessOrEqual(t, onDisk, int64(10_000), "more than the segment that is written to is left")
	require.NoError(t, s.Close())
	require.Empty(t, names(t, dir))
}

// walk puts, reads and frees, with a reader beside it. What is to be kept must come back whenever it is read; the rest
// may have been freed meanwhile.
func walk(t *testing.T, s *spill.Store, random *rand.Rand, steps int, held map[spill.Ref][]byte) {
	type piece struct {
		ref  spill.Ref
		want []byte
		kept bool
	}
	reading, done := make(chan piece), make(chan struct{})
	go func() {
		defer close(done)
		var buffer []byte
		for p := range reading {
			got, err := s.Get(buffer[:0], p.ref)
			if !p.kept && errors.Is(err, spill.ErrLost) {
				continue
			}
			if err != nil || !bytes.Equal(got, p.want) {
				t.Errorf("%s came back as %d bytes, %v", p.ref, len(got), err)
			}
			buffer = got
		}
	}()
	var pieces []piece
	for range steps {
		if k := random.IntN(10); k < 5 || len(pieces) == 0 {
			b := make([]byte, 1+random.IntN(900))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			r, err := s.Put(b)
			if err != nil {
				t.Errorf("put %d bytes: %v", len(b), err)
				break
			}
			held[r] = bytes.Clone(b)
			clear(b) // the Store has its own
			pieces = append(pieces, piece{r, held[r], random.IntN(8) == 0})
		} else if i := random.IntN(len(pieces)); k < 8 || pieces[i].kept {
			reading <- pieces[i]
		} else {
			s.Free(pieces[i].ref)
			delete(held, pieces[i].ref)
			pieces = slices.Delete(pieces, i, i+1)
		}
	}
	close(reading)
	<-done
}
