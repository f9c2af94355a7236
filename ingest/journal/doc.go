// Package journal has the format of the journal, a second Kafka topic with blocks of the rows of open bins, partition
// for partition, so that a restart loads blocks where it would read hours of the source again.
// docs/internals/protocol.md has its rules, J1 to J8; docs/internals/format/journal.md has every byte. The journal is a
// cache: no safety rests on it. Beside its offset, a commit names the part of the journal to load (Commit); a Loader
// loads it and checks that it is whole; a BlockIndex has the blocks of a writer that are in the journal and still
// needed, and so the part that its next commit may count on. The package is pure: no I/O, no clock, no goroutine. It
// must not know how rows are encoded in a block, nor how records are sent.
package journal

import "errors"

// ErrNotWhole means that the journal can't be used: it has lost something since the commit. The reader starts at the
// committed offset of the source, as if there were no journal (rule J5). Errors that describe the loss wrap it.
var ErrNotWhole = errors.New("the journal is not whole")
