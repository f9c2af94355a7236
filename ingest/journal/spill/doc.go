// Package spill keeps bytes on disk that memory has no room for: the blocks of open bins that have not been touched for
// longest, above all.
//
// It is a cache. Bytes that are put here are also elsewhere, in the journal: nothing is synced, nothing outlives the
// process, and losing a file costs a read of the journal. What comes back is what was put, or an error: the checksum
// of a piece is in its Ref and not in the file, so a file holds pieces end to end and nothing else.
//
// Files are segments of 64 MiB that are appended to. A segment goes when none of its pieces is live; pieces are never
// moved. What has been freed in a segment that is still needed stays on disk, so the disk holds at most what was put in
// the time for which the longest-lived piece lives, and two segments: the one that is written to, and the rest of the
// oldest. Where pieces live for a day at most, that is the pieces of a day.
//
// The package must not know what the bytes are, nor what they are for.
package spill
