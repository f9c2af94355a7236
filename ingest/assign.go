package ingest

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"regexp"
	"slices"
	"strconv"

	"binnacle/internal/kafka"
	"binnacle/internal/retry"
)

// assignment is the share of a process that reads fixed partitions: those whose number leaves its ordinal as the
// remainder.
type assignment struct{ ordinal, count int }

var assignmentForm = regexp.MustCompile(`^(auto|[0-9]{1,6})/([0-9]{1,6})$`)

// ordinalAtEnd is the end of a pod's name in a StatefulSet.
var ordinalAtEnd = regexp.MustCompile(`-([0-9]{1,6})$`)

// CheckAssign returns what is wrong with a value of Config.Assign on this machine, or nil.
func CheckAssign(text string) error {
	_, err := parseAssignment(text)
	return err
}

// parseAssignment reads ORDINAL/COUNT, or auto/COUNT for the ordinal at the end of the host's name. An empty text gives
// nil.
func parseAssignment(text string) (*assignment, error) {
	if text == "" {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return parseAssignmentOn(text, host)
}

func parseAssignmentOn(text, host string) (*assignment, error) {
	parts := assignmentForm.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("--assign %q is not ORDINAL/COUNT, such as 0/3, nor auto/COUNT", text)
	}
	ordinal := parts[1]
	if ordinal == "auto" {
		of := ordinalAtEnd.FindStringSubmatch(host)
		if of == nil {
			return nil, fmt.Errorf("--assign %q: the host's name %q does not end in an ordinal, such as -0", text, host)
		}
		ordinal = of[1]
	}
	var a assignment
	a.ordinal, _ = strconv.Atoi(ordinal) // six digits at most
	a.count, _ = strconv.Atoi(parts[2])
	if a.ordinal >= a.count {
		return nil, fmt.Errorf("--assign %q: ordinal %d of %d, they begin at 0", text, a.ordinal, a.count)
	}
	return &a, nil
}

// share returns the partitions of this process. Where there may be several topics, each begins at an ordinal that
// follows from its name: else the first process would have all topics of one partition.
func (a assignment) share(all []topicPartition, alone bool) []topicPartition {
	own := []topicPartition{}
	for _, p := range all {
		begin := 0
		if !alone {
			begin = firstOrdinal(p.topic, a.count)
		}
		if (begin+p.partition)%a.count == a.ordinal {
			own = append(own, p)
		}
	}
	return own
}

func firstOrdinal(topic string, count int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(topic)) // never fails
	return int(h.Sum32() % uint32(count))
}

// runAssigned reads the fixed partitions of the process until the context ends and every partition is handed over.
func (in *Ingester) runAssigned(ctx context.Context, line *groupConns) error {
	for ctx.Err() == nil {
		l := in.layout.Load()
		t := &generation{cluster: in.cfg.Kafka, group: in.cfg.Group, id: kafka.NoGeneration, conns: line,
			partitions: in.assigns.share(l.partitions(), in.set.Single())}
		began := in.cfg.Now()
		reading, stop := in.whileLayout(ctx, l, func(l *layout) bool { // until there are others for this process
			return slices.Equal(in.assigns.share(l.partitions(), in.set.Single()), t.partitions)
		})
		in.runGeneration(reading, t)
		stop()
		if in.cfg.Now().Sub(began) < generationBackoff {
			_ = retry.Pause(ctx, generationBackoff)
		}
	}
	return nil
}
