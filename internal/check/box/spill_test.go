package box_test

import (
	"crypto/sha512"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/journal/spill"
)

// spilling are ingesters with so little memory that blocks go to a spill file, on a disk that fails.
const spilling = "spill"

// shortage is what the seed picks of short memory.
type shortage struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd    *rand.Rand
	on     bool
	memory int64 // bytes of an ingester
	disks  map[*actor]*disk
}

// pickShortage picks how short memory is.
func (b *box) pickShortage() (x shortage) {
	x.rnd, x.disks = rand.New(rand.NewPCG(b.opts.seed, 46)), map[*actor]*disk{}
	picks := rand.New(rand.NewPCG(b.opts.seed, 47)).IntN(6) == 0 && b.about == "" && b.opts.years == 0
	if x.on = b.has(spilling, picks); !x.on {
		return x
	}
	x.memory = oneOf(x.rnd, int64(96<<10), 192<<10, 384<<10)
	p := &b.profile
	p.journal, p.act, p.devices = true, 0.15, 1+x.rnd.IntN(2)
	p.hold, p.journalEvery = oneOf(x.rnd, 5*time.Minute, 12*time.Hour), oneOf(x.rnd, time.Second, 10*time.Second)
	p.pace = min(p.pace, 2*time.Second)
	for i := range 20 { // names take room in blocks
		b.metrics = append(b.metrics, fmt.Sprintf("m%x", sha512.Sum512([]byte{byte(i)})))
	}
	return x
}

// disk is the disk with the spill file of one life of an ingester. The scheduler damages it.
type disk struct {
	b     *box
	fails string
	bytes []byte
}

// Faults of a disk.
const (
	fullDisk  = "is full"
	shortFile = "has a file that was cut short"
	goneFile  = "has lost its file"
	otherFile = "has the file of another life"
)

// WriteAt implements io.WriterAt. A disk that gets full takes half of what it is given.
func (d *disk) WriteAt(p []byte, at int64) (int, error) {
	if more := int(at) + len(p) - len(d.bytes); more > 0 {
		d.bytes = append(d.bytes, make([]byte, more)...)
	}
	if d.fails == fullDisk && !d.b.calm() {
		return copy(d.bytes[at:], p[:len(p)/2]), syscall.ENOSPC
	}
	return copy(d.bytes[at:], p), nil
}

// ReadAt implements io.ReaderAt.
func (d *disk) ReadAt(p []byte, at int64) (int, error) {
	n := copy(p, d.bytes[at:])
	switch {
	case d.b.calm():
	case d.fails == shortFile:
		return n / 2, io.EOF
	case d.fails == goneFile:
		return 0, syscall.EIO
	case d.fails == otherFile:
		copy(p, strings.Repeat("another", n))
	}
	return n, nil
}

// Close implements io.Closer.
func (d *disk) Close() error { return nil }

// spills gives an ingester short memory and a spill file.
func (b *box) spills(a *actor, cfg *ingest.Config) {
	x := &b.shortage
	if !x.on {
		return
	}
	d := &disk{b: b}
	files, err := spill.OpenFiles(func() (spill.File, error) { return d, nil }, 1<<30)
	if err != nil {
		panic(err)
	}
	x.disks[a], cfg.Shelf, cfg.MemoryBytes = d, ingest.ShelfOf(files), x.memory
}

// actShortage damages the disk of an ingester that lives, or mends it, or lets a device publish much. It reports
// whether it did.
func (b *box) actShortage() bool {
	x := &b.shortage
	if !x.on || x.rnd.IntN(8) > 0 {
		return false
	}
	if x.rnd.IntN(3) == 0 { // blocks fill, and go to the disk
		device := oneOf(x.rnd, b.devicesOf(b.tenants[0])...)
		for range 30 {
			b.publish(b.tenants[0], device, func() int64 { return time.Now().UnixMilli() })
		}
		return true
	}
	s := oneOf(x.rnd, b.slots...)
	if len(s.lives) == 0 {
		return false
	}
	a := oneOf(x.rnd, s.lives...).actor
	d := x.disks[a]
	d.fails = oneOf(x.rnd, "", "", fullDisk, shortFile, goneFile, otherFile)
	b.event("box", "disk", a.name, d.fails)
	return true
}
