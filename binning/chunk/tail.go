package chunk

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
)

// Tail is the part of a chunk document that is the same in every version, because queries of the store rest on it. A
// writer that continues a chain needs no more, and can't rely on more while writers of two versions run.
type Tail struct {
	ID       ID
	Through  int64 // offset of the last record in it
	From, To int64 // least and greatest event time
	IsErased bool  // it has no rows
}

// ParseTail reads the tail of a chunk document of any version. What is not one gives ErrCorrupt.
func ParseTail(doc []byte) (Tail, error) {
	var d struct {
		ID                string
		Through, From, To *int64
		Rows              *int64
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return Tail{}, corrupt("%.200s", err.Error())
	}
	id, err := ParseID(d.ID)
	if err != nil || d.Through == nil || d.From == nil || d.To == nil || *d.Through < 0 || *d.From > *d.To {
		return Tail{}, corrupt("id %.100q with no through, from and to", d.ID)
	}
	return Tail{ID: id, Through: *d.Through, From: *d.From, To: *d.To, IsErased: d.Rows != nil && *d.Rows == 0}, nil
}

// ID names a chunk of a device: the day, the stream and Kafka partition of its records, and its number in the chain
// of that day, stream and partition.
type ID struct {
	Day       telemetry.Day
	Stream    uint32
	Partition int32 // 0 and up
	Number    uint32
}

// String returns the document id, "20261120.1.00003.000017". Within one stream ids sort as text in the order of day,
// partition and number while partitions are below 100,000 and numbers below 1,000,000; beyond, the field widens and
// only ParseID's parts tell the order.
func (id ID) String() string {
	return fmt.Sprintf("%s.%d.%05d.%06d", id.Day, id.Stream, id.Partition, id.Number)
}

// ParseID reads the form of ID.String, and no other spelling of the same numbers.
func ParseID(s string) (ID, error) {
	day, rest, ok1 := strings.Cut(s, ".")
	stream, rest, ok2 := strings.Cut(rest, ".")
	partition, number, ok3 := strings.Cut(rest, ".")
	if !ok1 || !ok2 || !ok3 {
		return ID{}, badID(s)
	}
	d, err := telemetry.ParseDay(day)
	if err != nil {
		return ID{}, badID(s)
	}
	a, ok1 := parseField(stream, 1, math.MaxUint32)
	b, ok2 := parseField(partition, 5, math.MaxInt32)
	c, ok3 := parseField(number, 6, math.MaxUint32)
	if !ok1 || !ok2 || !ok3 {
		return ID{}, badID(s)
	}
	return ID{Day: d, Stream: uint32(a), Partition: int32(b), Number: uint32(c)}, nil
}

// parseField reads digits that are padded with zeros to a width, and not beyond it.
func parseField(s string, width int, most uint64) (uint64, bool) {
	if len(s) < width || len(s) > width && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n <= most
}

func badID(s string) error {
	return fmt.Errorf("chunk id %.60q is not of the form day.stream.partition.number, as in 20261120.1.00003.000017", s)
}
