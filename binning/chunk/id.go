package chunk

import (
	"fmt"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
)

// ID names a chunk among those of one device: the day, the stream and Kafka partition of its records, and its number in
// the chain of that day, stream and partition.
type ID struct {
	Day       telemetry.Day
	Stream    uint32
	Partition int32 // 0 and up
	Number    uint32
}

// String is the document id, "20261120.1.00003.000017". Within one stream ids sort as text in the order of day,
// partition and number while partitions are below 100,000 and numbers below 1,000,000; beyond, the field widens and
// only ParseID's parts tell the order.
func (id ID) String() string {
	return fmt.Sprintf("%s.%d.%05d.%06d", id.Day, id.Stream, id.Partition, id.Number)
}

// ParseID reads the form of ID.String, and no other spelling of the same numbers.
func ParseID(s string) (ID, error) {
	p := strings.Split(s, ".")
	if len(p) != 4 {
		return ID{}, badID(s)
	}
	day, err := telemetry.ParseDay(p[0])
	if err != nil {
		return ID{}, badID(s)
	}
	stream, err1 := strconv.ParseUint(p[1], 10, 32)
	partition, err2 := strconv.ParseUint(p[2], 10, 31)
	number, err3 := strconv.ParseUint(p[3], 10, 32)
	id := ID{Day: day, Stream: uint32(stream), Partition: int32(partition), Number: uint32(number)}
	if err1 != nil || err2 != nil || err3 != nil || id.String() != s {
		return ID{}, badID(s)
	}
	return id, nil
}

func badID(s string) error {
	return fmt.Errorf("chunk id %.60q is not of the form day.stream.partition.number, as in 20261120.1.00003.000017", s)
}
