package broker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An idempotent producer numbers its batches, and the broker remembers the last few of every partition: a batch
// that is sent again after a lost acknowledgement is recognized and not appended twice. kfake writes these
// windows when it is closed, so a killed broker would append such a batch again. Before kfake starts, they are
// rebuilt from the log.

// windowsFile is kfake's file in the folder of its log.
const windowsFile = "seq_windows.json"

// windowSize is the number of remembered batches of a producer.
const windowSize = 5

// producerWindows is the file, windowsVersion the version of it that is written and read here.
type producerWindows struct {
	Version int       `json:"version"`
	Windows []*window `json:"windows"`
}

const windowsVersion = 1

// window holds the last batches of one producer in one partition.
type window struct {
	Producer  int64             `json:"pid"`
	Topic     string            `json:"topic"`
	Partition int32             `json:"partition"`
	Entries   [windowSize]entry `json:"entries"`
	Count     uint8             `json:"count"`
	At        uint8             `json:"at"` // index of the next entry
	Epoch     int16             `json:"epoch"`
	Seen      bool              `json:"seen"`
	Next      int32             `json:"next_seq"`
}

type entry struct {
	First  int32 `json:"first_seq"`
	Next   int32 `json:"next_seq"`
	Offset int64 `json:"offset"`
}

// rememberProducers updates the file from the log of a folder. No other process may use the folder while it
// runs.
func rememberProducers(folder string) error {
	file := filepath.Join(folder, windowsFile)
	stored := producerWindows{Version: windowsVersion}
	body, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(body, &stored)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read what is known of producers: %w", err)
	}
	if stored.Version != windowsVersion {
		return fmt.Errorf("read what is known of producers: %s is of version %d", windowsFile, stored.Version)
	}
	partitions, err := filepath.Glob(filepath.Join(folder, "partitions", "*"))
	if err != nil {
		return err
	}
	var found []*window
	for _, dir := range partitions {
		topic, partition, ok := partitionOf(filepath.Base(dir))
		if !ok {
			continue
		}
		of, err := windowsOf(dir, topic, partition)
		if err != nil {
			return fmt.Errorf("read what producers sent to %s/%d: %w", topic, partition, err)
		}
		found = append(found, of...)
	}
	if len(found) == 0 {
		return nil
	}
	for _, w := range stored.Windows { // the log may have lost what a producer sent last
		if !slices.ContainsFunc(found, w.isOf) {
			found = append(found, w)
		}
	}
	body, err = json.Marshal(producerWindows{windowsVersion, found})
	if err != nil {
		return err
	}
	return replaceFile(file, body)
}

func windowsOf(dir, topic string, partition int32) (found []*window, err error) {
	known := map[int64]*window{}
	err = eachBatch(dir, func(b *kmsg.RecordBatch) {
		if b.ProducerID < 0 || b.FirstSequence < 0 {
			return // the batch has no producer, or is a marker
		}
		w := known[b.ProducerID]
		if w == nil {
			w = &window{Producer: b.ProducerID, Topic: topic, Partition: partition}
			known[b.ProducerID], found = w, append(found, w)
		}
		w.take(b)
	})
	return found, err
}

func (w *window) isOf(other *window) bool {
	return w.Producer == other.Producer && w.Topic == other.Topic && w.Partition == other.Partition
}

// take adds a batch, the next one of its producer in the log.
func (w *window) take(b *kmsg.RecordBatch) {
	if !w.Seen || w.Epoch != b.ProducerEpoch {
		*w = window{Producer: w.Producer, Topic: w.Topic, Partition: w.Partition, Epoch: b.ProducerEpoch, Seen: true}
	}
	w.Next = int32((int64(b.FirstSequence) + int64(b.NumRecords)) % (1<<31 - 1)) // kfake wraps sequence numbers here
	w.Entries[w.At] = entry{b.FirstSequence, w.Next, b.FirstOffset}
	w.At = (w.At + 1) % windowSize
	w.Count = min(w.Count+1, windowSize)
}

// partitionOf splits a folder's name at its last dash into a topic and a number.
func partitionOf(folder string) (topic string, partition int32, ok bool) {
	dash := strings.LastIndexByte(folder, '-')
	if dash < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(folder[dash+1:], 10, 32)
	if err != nil || n < 0 {
		return "", 0, false
	}
	topic, err = url.PathUnescape(folder[:dash])
	return topic, int32(n), err == nil
}

// eachBatch calls do with the batches of a partition in their order, up to the first torn one: kfake truncates the
// log there.
func eachBatch(dir string, do func(*kmsg.RecordBatch)) error {
	begins, err := segments(dir)
	if err != nil {
		return err
	}
	for _, n := range begins {
		rest, err := os.ReadFile(segment(dir, n, "dat"))
		if err != nil {
			return err
		}
		for len(rest) > 0 {
			b, length, ok := wholeBatch(rest)
			if !ok {
				return nil
			}
			do(b)
			rest = rest[length:]
		}
	}
	return nil
}

// segments returns the first offsets of a partition's segments, in their order.
func segments(dir string) (begins []int64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.dat"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(f), ".dat"), 10, 64)
		if err == nil {
			begins = append(begins, n)
		}
	}
	slices.Sort(begins)
	return begins, nil
}

// segment returns the path of a file of the segment that begins at an offset: its batches, dat, or their index, idx.
func segment(dir string, begin int64, kind string) string {
	return filepath.Join(dir, strconv.FormatInt(begin, 10)+"."+kind)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// wholeBatch decodes the first batch of raw; ok is false when it is torn.
func wholeBatch(raw []byte) (b *kmsg.RecordBatch, length int, ok bool) {
	const head = 61
	if len(raw) < head {
		return nil, 0, false
	}
	length = int(int32(binary.BigEndian.Uint32(raw[8:]))) + 12
	if length < head || length > len(raw) {
		return nil, 0, false
	}
	b = new(kmsg.RecordBatch)
	ok = crc32.Checksum(raw[21:length], castagnoli) == binary.BigEndian.Uint32(raw[17:]) && b.ReadFrom(raw[:length]) == nil
	return b, length, ok
}

// replaceFile replaces a file atomically.
func replaceFile(path string, body []byte) error {
	if err := os.WriteFile(path+".tmp", body, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
