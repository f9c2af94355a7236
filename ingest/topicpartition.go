package ingest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

type topicPartition struct {
	topic     string
	partition int
}

// String returns topic/partition.
func (p topicPartition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

func (p topicPartition) labels() []string { return []string{p.topic, strconv.Itoa(p.partition)} }

func compareTopicPartitions(a, b topicPartition) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}
