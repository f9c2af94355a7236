package chunk

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
)

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
