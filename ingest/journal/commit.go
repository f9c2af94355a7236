package journal

import (
	"fmt"
	"strconv"
	"strings"
)

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

// Metadata returns the metadata of an offset: ASCII and short; empty when the commit counts on no block.
func (c Commit) Metadata() string {
	if !c.Counts() {
		return ""
	}
	return fmt.Sprintf("%s stream=%d f=%d from=%d to=%d mark=%s", commitVersion, c.Stream, c.F, c.From, c.To, c.Mark)
}

// ParseCommit parses what Commit.Metadata returned. It reports false for metadata of other programs or of a later
// version: then there is no journal to count on.
func ParseCommit(metadata string) (Commit, bool) {
	var c Commit
	fields := strings.Split(metadata, " ")
	if len(fields) != 6 || fields[0] != commitVersion {
		return Commit{}, false
	}
	number := func(field, name string, bits int) (uint64, bool) {
		digits, named := strings.CutPrefix(field, name+"=")
		n, err := strconv.ParseUint(digits, 10, bits)
		return n, named && err == nil
	}
	var values [4]uint64
	for i, f := range []struct {
		name string
		bits int
	}{{"stream", 32}, {"f", 63}, {"from", 63}, {"to", 63}} {
		n, ok := number(fields[i+1], f.name, f.bits)
		if !ok {
			return Commit{}, false
		}
		values[i] = n
	}
	mark, named := strings.CutPrefix(fields[5], "mark=")
	nonce, err := strconv.ParseUint(mark, 16, 64)
	c = Commit{Stream: uint32(values[0]), F: int64(values[1]), From: int64(values[2]), To: int64(values[3]),
		Mark: Nonce(nonce)}
	if !named || err != nil || !c.Counts() {
		return Commit{}, false
	}
	return c, true
}
