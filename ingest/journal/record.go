// Package journal has the format of the journal, a second Kafka topic with blocks of the rows of open bins, partition
// for partition, so that a restart loads blocks where it would read hours of the source again.
// docs/internals/protocol.md has its rules, J1 to J8; docs/internals/format/journal.md has every byte. The journal is a
// cache: no safety rests on it. Beside its offset, a commit names the part of the journal to load (Commit); a Loader
// loads it and checks that it is whole; a BlockIndex has the blocks of a writer that are in the journal and still
// needed, and so the part that its next commit may count on. The package is pure: no I/O, no clock, no goroutine. It
// must not know how rows are encoded in a block, nor how records are sent.
package journal

import (
	"errors"
	"fmt"
	"math"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/bytesread"
)

// Nonce identifies an append and its writer.
type Nonce uint64

// String returns the nonce as 16 hexadecimal digits.
func (n Nonce) String() string { return fmt.Sprintf("%016x", uint64(n)) }

// Link names an append by the offset of its last record and its nonce (rule J6).
type Link struct {
	Offset int64
	Nonce  Nonce
}

// Record is one record of the journal: a block of rows of one device and day, and the append that it came with. One
// without rows has times of a device that the catalog lacks: From and To of rows that are stored.
type Record struct {
	Nonce Nonce
	// Before is the last append that the writer knew. Only the first record of an append has it, and no record of a writer
	// that knew none.
	Before  Link
	Linked  bool
	Stream  uint32 // the source's
	Tenant  string
	Device  string
	Day     telemetry.Day
	First   int64 // offsets of the source: of the first and the last record with rows in the block
	Through int64
	Rows    int
	Values  int
	From    int64  // least event time of the rows, ms since 1970 UTC
	To      int64  // greatest one
	Tail    Tail   // the chain's, as the writer knew it
	Data    []byte // the rows; docs/internals/format/block.md
}

// Tail is what the writer of a block knew of the chunks of its chain: as much as a look-up returns, but for what was
// stored since. Rows at or below Through are stored.
type Tail struct {
	Known    bool
	Chunks   int64 // how many there are: the number of the next one
	Through  int64 // the last chunk's through; 0 without a chunk, as are From and To
	From, To int64 // its event times
}

// Version is the layout of records that is written and read; it opens every one.
const Version = 1

// flags of a record.
const (
	flagLinked = 1 << iota
	flagTail
)

// Append appends the record's value, as the journal's topic keeps it.
func (r *Record) Append(dst []byte) []byte {
	c := bytesread.Codec{Out: dst, Appends: true}
	r.format(&c)
	return append(c.Out, r.Data...)
}

// ParseRecord returns the inverse of Record.Append. Data aliases value. Any error wraps ErrNotWhole.
func ParseRecord(value []byte) (r Record, err error) {
	c := bytesread.Codec{Reader: bytesread.Reader{Rest: value}}
	r.format(&c)
	r.Data = c.Rest
	switch {
	case c.Err == nil && (r.Tenant == "" || r.Device == ""):
		c.Err = errors.New("it names no tenant or device")
	case c.Err == nil && r.Rows == 0 && len(r.Data) > 0:
		c.Err = errors.New("it claims to have no rows, and has some")
	}
	if c.Err != nil {
		return Record{}, fmt.Errorf("%w: a record is not of the journal: %w", ErrNotWhole, c.Err)
	}
	return r, nil
}

// format appends or reads all fields but the rows.
func (r *Record) format(c *bytesread.Codec) {
	version := uint8(Version)
	if bytesread.Uint(c, &version, 1<<7-1); version != Version {
		c.Failf("its version is %d", version)
	}
	bytesread.Fixed(c, &r.Nonce)
	flags := r.flags()
	if bytesread.Uint(c, &flags, flagLinked|flagTail); !c.Appends {
		r.Linked, r.Tail.Known = flags&flagLinked != 0, flags&flagTail != 0
	}
	if r.Linked {
		bytesread.Uint(c, &r.Before.Offset, math.MaxInt64)
		bytesread.Fixed(c, &r.Before.Nonce)
	}
	bytesread.Uint(c, &r.Stream, math.MaxUint32)
	bytesread.Uint(c, &r.Day, telemetry.MaxMillis/telemetry.DayMillis-1)
	interval(c, &r.First, &r.Through)
	bytesread.Uint(c, &r.Rows, 1<<30)
	bytesread.Uint(c, &r.Values, 1<<30)
	interval(c, &r.From, &r.To)
	if r.Tail.Known {
		bytesread.Uint(c, &r.Tail.Chunks, math.MaxInt64)
		if r.Tail.Chunks > 0 {
			bytesread.Uint(c, &r.Tail.Through, math.MaxInt64)
			interval(c, &r.Tail.From, &r.Tail.To)
		}
	}
	c.Text(&r.Tenant)
	c.Text(&r.Device)
}

func (r *Record) flags() (flags uint8) {
	if r.Linked {
		flags |= flagLinked
	}
	if r.Tail.Known {
		flags |= flagTail
	}
	return flags
}

// interval appends or reads a number, and one that is at least as large, as their difference.
func interval(c *bytesread.Codec, least, most *int64) {
	bytesread.Uint(c, least, math.MaxInt64)
	width := *most - *least
	if bytesread.Uint(c, &width, uint64(math.MaxInt64-*least)); !c.Appends {
		*most = *least + width
	}
}

// ErrNotWhole means that the journal can't be used: it has lost something since the commit. The reader starts at the
// committed offset of the source, as if there were no journal (rule J5). Errors that describe the loss wrap it.
var ErrNotWhole = errors.New("the journal is not whole")

// Commit is what a commit carries in addition to its offset S, the floor below which everything is in a chunk or
// refused (rules J1, J3). The zero Commit counts on no journal.
type Commit struct {
	Stream uint32 // the source's: positions of another stream mean nothing
	F      int64  // below it everything is in a chunk, in an acknowledged block, or refused
	From   int64  // lowest offset of the journal with a block that F counts on
	To     int64  // one past the last one
	Mark   Nonce  // nonce of the record at To-1
}

// Counts reports whether the commit counts on any block.
func (c Commit) Counts() bool { return c.From < c.To }

// commitVersion opens the metadata. A process that does not know it starts at S.
const commitVersion = "binnacle-journal/1"

// Metadata returns the metadata of an offset: ASCII and short. It names the stream alone when the commit counts on no
// block.
func (c Commit) Metadata() string {
	if !c.Counts() {
		return fmt.Sprintf("%s stream=%d", commitVersion, c.Stream)
	}
	return fmt.Sprintf("%s stream=%d f=%d from=%d to=%d mark=%s", commitVersion, c.Stream, c.F, c.From, c.To, c.Mark)
}

// IsOfAnother reports whether metadata says that its offset is of another stream than the one given.
func IsOfAnother(metadata string, stream uint32) bool {
	of := stream
	_, err := fmt.Sscanf(metadata, commitVersion+" stream=%d", &of)
	return err == nil && of != stream
}

// ParseCommit parses what Commit.Metadata returned. It reports false when the commit counts on no block, and for
// metadata of other programs or of a later version: then there is no journal to count on.
func ParseCommit(metadata string) (c Commit, ok bool) {
	const form = commitVersion + " stream=%d f=%d from=%d to=%d mark=%x"
	_, err := fmt.Sscanf(metadata, form, &c.Stream, &c.F, &c.From, &c.To, &c.Mark)
	if err != nil || min(c.F, c.From) < 0 || !c.Counts() || c.Metadata() != metadata {
		return Commit{}, false
	}
	return c, true
}

// BlockIndex indexes the journal's blocks that one writer knows, appended or loaded by it, until all their rows are
// in acknowledged chunks. The zero BlockIndex is empty. It serves one goroutine.
type BlockIndex struct {
	live liveOffsets
	last Link // the append that landed last, or was loaded last
	any  bool // there is one
	// others is the last append of another writer that was read. An append on its way does not name it.
	others Link
	// unsure is set while appends without an answer may stand behind last: they may hide that last is gone.
	unsure bool
}

// Before returns the append that the next one must name (rule J6); ok is false when none is known. There is one append
// at a time.
func (l *BlockIndex) Before() (last Link, ok bool) {
	last, ok = l.end()
	l.unsure = l.unsure && last == l.last
	l.last, l.any = last, ok
	return last, ok
}

// end returns the last append that is known.
func (l *BlockIndex) end() (last Link, ok bool) {
	if l.others != (Link{}) && (!l.any || l.others.Offset > l.last.Offset) {
		return l.others, true
	}
	return l.last, l.any
}

// Unanswered records that an append got no answer: it may have landed.
func (l *BlockIndex) Unanswered() { l.unsure = l.any }

// Unsure returns the append before, if appends without an answer may hide that it is gone; the zero Link if not.
func (l *BlockIndex) Unsure() (before Link) {
	if l.unsure {
		before = l.last
	}
	return before
}

// Appended records an append of n blocks, the first one at an offset. It reports lost when the journal has lost its end
// since the append before, blocks that counted among it: then the BlockIndex is empty, and whatever was journaled must
// be again, the new blocks too, for they name an append that is gone.
func (l *BlockIndex) Appended(first int64, n int, nonce Nonce) (lost bool) {
	if lost = l.any && first <= l.last.Offset; lost {
		*l = BlockIndex{}
	}
	if l.last, l.any, l.unsure = (Link{first + int64(n) - 1, nonce}), true, false; lost {
		return true
	}
	for i := range int64(n) {
		l.live.add(first + i)
	}
	return false
}

// Loaded adds a block that a Loader has taken and that has rows which are kept.
func (l *BlockIndex) Loaded(offset int64) { l.live.add(offset) }

// Resume continues after the last append of a Loader.
func (l *BlockIndex) Resume(last Link) { l.last, l.any = last, true }

// Follow records the last append that was read of another writer: commits demand the journal up to there.
func (l *BlockIndex) Follow(others Link) { l.others = others }

// Remove removes a block that has all its rows in acknowledged chunks.
func (l *BlockIndex) Remove(offset int64) { l.live.remove(offset) }

// Commit returns what a commit may carry with an F: it counts on all blocks that are needed, and demands that the
// journal is whole up to the last append (rule J3). Without a block it counts on nothing.
func (l *BlockIndex) Commit(stream uint32, f int64) Commit {
	from, ok := l.live.lowest()
	if !ok {
		return Commit{Stream: stream}
	}
	last, _ := l.end()
	return Commit{Stream: stream, F: f, From: from, To: last.Offset + 1, Mark: last.Nonce}
}
