package ingest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int
}

// String is topic/partition, as logs have it.
func (p place) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

// labels are those of metrics of the partition.
func (p place) labels() []string { return []string{p.topic, strconv.Itoa(p.partition)} }

func comparePlaces(a, b place) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}
