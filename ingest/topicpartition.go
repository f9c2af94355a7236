package ingest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

// String is topic/partition, as logs have it.
func (p topicPartition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

// labels are those of metrics of the partition.
func (p topicPartition) labels() []string { return []string{p.topic, strconv.Itoa(p.partition)} }

func compareTopicPartitions(a, b topicPartition) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}
