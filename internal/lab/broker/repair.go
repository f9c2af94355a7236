package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A killed process or a full disk may leave the last entry of a file torn. kfake reads up to there and appends behind
// it, and would not find the new entries after a restart. So torn entries are truncated before kfake starts. They
// were not acknowledged: an answer waits for the whole entry.

// repair truncates the files of a folder to their last whole entries. No other process may use the folder while
// it runs.
func repair(folder string) error {
	for _, name := range []string{"groups.log", "pids.log"} {
		if err := repairLog(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("repair %s: %w", name, err)
		}
	}
	partitions, err := filepath.Glob(filepath.Join(folder, "partitions", "*"))
	if err != nil {
		return err
	}
	for _, dir := range partitions {
		if err := repairIndex(dir); err != nil {
			return fmt.Errorf("repair the index of %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// repairLog truncates a file of entries behind the last whole one. An entry is its length, the checksum of the rest,
// and the rest: two little-endian numbers of 4 bytes, and as many bytes as the length.
func repairLog(path string) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	whole := 0
	for rest := raw; len(rest) >= 8; rest = raw[whole:] {
		length := uint64(binary.LittleEndian.Uint32(rest))
		if length < 2 || length > uint64(len(rest)-8) ||
			crc32.Checksum(rest[8:8+length], castagnoli) != binary.LittleEndian.Uint32(rest[4:]) {
			break
		}
		whole += 8 + int(length)
	}
	if whole == len(raw) {
		return nil
	}
	return os.Truncate(path, int64(whole))
}

// indexBytes is the length of an index entry: one for each batch of the segment, in the same order.
const indexBytes = 15

// repairIndex completes the index of a partition's last segment. kfake writes it after the batch: if an entry were
// missing or torn, all entries behind it would belong to the wrong batches.
func repairIndex(dir string) error {
	begins, err := segments(dir)
	if err != nil || len(begins) == 0 {
		return err
	}
	last := begins[len(begins)-1]
	raw, err := os.ReadFile(segment(dir, last, "dat"))
	if err != nil {
		return err
	}
	index, err := os.ReadFile(segment(dir, last, "idx"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	have, n := index[:len(index)-len(index)%indexBytes], 0
	for len(raw) > 0 {
		b, length, ok := wholeBatch(raw)
		if !ok {
			break // kfake cuts the segment here
		}
		if n++; len(have) < n*indexBytes {
			have = appendIndex(have, b)
		}
		raw = raw[length:]
	}
	if len(have) == len(index) {
		return nil
	}
	return replaceFile(segment(dir, last, "idx"), have)
}

// appendIndex appends the entry of a batch: a version, the low byte of the checksum of the rest, the epoch, a
// timestamp that is renewed on loading, and whether the batch is part of a transaction.
func appendIndex(index []byte, b *kmsg.RecordBatch) []byte {
	const transactional, control = 0x10, 0x20
	var entry [indexBytes]byte
	entry[0] = 1
	binary.LittleEndian.PutUint32(entry[2:], uint32(b.PartitionLeaderEpoch))
	if b.Attributes&transactional != 0 && b.Attributes&control == 0 {
		entry[14] = 1
	}
	entry[1] = byte(crc32.Checksum(entry[2:], castagnoli))
	return append(index, entry[:]...)
}
