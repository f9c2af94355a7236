package kafkaemu

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

// A process that dies, or a disk that is full, may leave the last entry of a file torn. kfake reads up to there, and
// appends behind it: whatever comes then is not found when it is started again. So what is torn is cut off before kfake
// starts. It was not acknowledged, for an answer waits for the whole of it.

// repair brings the files of a folder, which nobody else uses meanwhile, to their last whole entries.
func repair(folder string) error {
	for _, name := range []string{"groups.log", "pids.log"} {
		if err := repairLog(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("mend %s: %w", name, err)
		}
	}
	partitions, err := filepath.Glob(filepath.Join(folder, "partitions", "*"))
	if err != nil {
		return err
	}
	for _, dir := range partitions {
		if err := repairIndex(dir); err != nil {
			return fmt.Errorf("mend the index of %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// repairLog cuts off a file of entries what is behind the last whole one. An entry is its length, the checksum of what
// follows, and that: 4 bytes each, little-endian, and as many bytes as the length says.
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

// indexBytes is the length of an entry of an index: one for each batch of the segment, in the same order.
const indexBytes = 15

// repairIndex completes the index of a partition's last segment. kfake writes it after the batch: if it was not written,
// or in part, all entries behind it would belong to the wrong batches.
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

// appendIndex appends the entry of a batch: a version, the low byte of the checksum of what follows, the epoch, a
// timestamp that is made anew when it is loaded, and whether it is part of a transaction.
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
