package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/engine"
	"binnacle/internal/lab/emulator/schema"
)

// The disk is full after so many bytes, wherever the log is then: amid a record, or where a segment begins. Open
// then fails, or the process ends. When there is room again, each item is the last version that was acknowledged, or
// the one that was under way; none is older than one that was read; and all goes on from there.
func TestTheDiskIsFull(t *testing.T) {
	const most = 2 << 20 // bytes, of which each row gets a part
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	rooms := []int64{0}
	for at := int64(1); at < 4000; at += 1 + rnd.Int64N(500) { // the files of a new directory
		rooms = append(rooms, at)
	}
	long := 8
	if testing.Short() {
		long = 4
	}
	for range long {
		rooms = append(rooms, 4000+rnd.Int64N(most))
	}
	var refused, ended int
	for _, room := range rooms {
		f := &filling{disk: newDisk(t, room), sent: map[string]int{}, acked: map[string]int{}, seen: map[string]int{}}
		sync := rnd.IntN(4) == 0
		for start := 0; start < 2; start++ { // the second one on what the first one has left
			err := f.untilFull(t, sync)
			require.ErrorContains(t, err, "no space left on device", "%d bytes", room)
			require.ErrorContains(t, err, "data directory")
			if strings.Contains(err.Error(), "cannot be written") {
				ended++
			} else {
				refused++
			}
			f.disk = f.disk.after(t, int64(start)*rnd.Int64N(100_000)) // first none is freed, then a little
		}
		f.disk = f.disk.after(t, 1<<40)
		f.isAllThere(t, fmt.Sprintf("seed %d, %d bytes", seed, room))
	}
	t.Logf("%d starts were refused, %d processes ended", refused, ended)
	require.Positive(t, refused)
	require.GreaterOrEqual(t, ended, long/2)
}

// filling is items that are written until the disk is full.
type filling struct {
	disk *disk // owned by the test

	mu    sync.Mutex     // guards below
	life  int            // the process of now; those before do nothing any more
	sent  map[string]int // versions of items
	acked map[string]int
	seen  map[string]int // what a read answered
}

func open(disk *disk, sync bool, fatal func(error)) (*engine.Account, *engine.Container, error) {
	a, err := engine.Open(engine.Config{
		DataDir: disk.dir, Write: disk.write, Sync: sync, PhysicalPartitions: 1, Rules: budget.Rules{Unlimited: true},
		Limits: engine.Limits{}.WithDefaults(), Model: ru.Stepped, Logger: slog.New(slog.DiscardHandler),
		Fatal: func(err error) {
			disk.die()
			fatal(err)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	co, err := a.Container("db", "items")
	if err == nil {
		return a, co, nil
	}
	if _, err := a.CreateDatabase("db", nil, time.Now()); err != nil && !strings.Contains(err.Error(), "exists") {
		return nil, nil, err
	}
	var j schema.JSON
	if err := json.Unmarshal([]byte(`{"id":"items","partitionKey":{"paths":["/p"]}}`), &j); err != nil {
		return nil, nil, err
	}
	co, err = a.CreateContainer("db", j, nil, time.Now())
	return a, co, err
}

// untilFull writes and reads until the disk is full, and returns what Open or the end of the process said. What it has
// begun does not end: it stands where a process would have ended.
func (f *filling) untilFull(t *testing.T, sync bool) error {
	ended, disk, life := make(chan error, 9), f.disk, f.life
	defer f.next()
	go func() {
		_, co, err := open(disk, sync, func(err error) { ended <- err })
		if err != nil {
			ended <- err
			return
		}
		for w := range 3 {
			go func() {
				for i := 0; ; i++ {
					if err := f.write(life, co, fmt.Sprint(w, "-", i%40), true); err != nil {
						ended <- err
						return
					}
				}
			}()
		}
		for i := 0; ; i++ {
			if err := f.read(life, co, fmt.Sprint(i%3, "-", i%40)); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		disk.die()
		return err
	case <-time.After(time.Minute):
		t.Fatal("neither full nor refused")
		return nil
	}
}

// next ends what the process of now does.
func (f *filling) next() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.life++
}

var errDead = errors.New("the process is dead")

func call() engine.Call { return engine.Call{Now: time.Now()} }

// write makes the next version of an item.
func (f *filling) write(life int, co *engine.Container, id string, minimal bool) error {
	f.mu.Lock()
	if life != f.life {
		f.mu.Unlock()
		return errDead
	}
	f.sent[id]++
	n := f.sent[id]
	f.mu.Unlock()
	_, err := co.Write(call(), engine.Write{Op: engine.OpUpsert, Key: `["` + id + `"]`, Minimal: minimal,
		Body: fmt.Appendf(nil, `{"id":%q,"p":%q,"n":%d,"pad":%q}`, id, id, n, strings.Repeat("x", 1500))})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if life != f.life {
		return errDead
	}
	f.acked[id] = n
	return nil
}

// read remembers which version of an item is answered.
func (f *filling) read(life int, co *engine.Container, id string) error {
	n, err := versionOf(co, id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if life != f.life {
		return errDead
	}
	f.seen[id] = max(f.seen[id], n)
	return err
}

// versionOf reads an item; 0 is none.
func versionOf(co *engine.Container, id string) (int, error) {
	r, err := co.Read(call(), engine.Read{Key: `["` + id + `"]`, ID: id, Factor: 1})
	if err != nil && strings.Contains(err.Error(), "404") {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var item struct{ N int }
	err = json.Unmarshal(r.Body, &item)
	return item.N, err
}

// isAllThere checks what is stored, twice, with more writes in between.
func (f *filling) isAllThere(t *testing.T, row string) {
	t.Helper()
	for range 2 {
		a, co, err := open(f.disk, false, func(err error) { panic(err) })
		require.NoError(t, err, row)
		items := 0
		for id, sent := range f.sent {
			n, err := versionOf(co, id)
			require.NoError(t, err, row)
			require.GreaterOrEqual(t, n, f.acked[id], "%s: item %s was acknowledged", row, id)
			require.GreaterOrEqual(t, n, f.seen[id], "%s: item %s was read", row, id)
			require.LessOrEqual(t, n, sent, "%s: item %s", row, id)
			if n > 0 {
				items++
			}
		}
		require.EqualValues(t, items, co.Stats(time.Now())[0].Items, "%s: the counters agree with the items", row)
		for i := range 50 {
			require.NoError(t, f.write(f.life, co, fmt.Sprint(i%3, "-", i%40), false), row)
		}
		require.NoError(t, a.Close(), row)
	}
}

// disk is a directory with room for so many bytes, and what a process does to it until it dies.
type disk struct {
	dir  string
	mu   sync.Mutex // guards below
	room int64
	dead bool
}

func newDisk(t *testing.T, room int64) *disk { return &disk{dir: t.TempDir(), room: room} }

// after is the disk that a process has left, with more room.
func (d *disk) after(t *testing.T, room int64) *disk {
	d.die()
	next := newDisk(t, room)
	files, err := filepath.Glob(filepath.Join(d.dir, "*.kv"))
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(next.dir, filepath.Base(f)), data, 0o600))
	}
	return next
}

// die has nobody come back who changes something from now on.
func (d *disk) die() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
}

// write writes what there is room for.
func (d *disk) write(f *os.File, p []byte) (int, error) {
	d.mu.Lock()
	if d.dead {
		d.mu.Unlock()
		select {}
	}
	defer d.mu.Unlock()
	room := min(int64(len(p)), d.room)
	d.room -= room
	n, err := f.Write(p[:room])
	if err == nil && room < int64(len(p)) {
		err = &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}
