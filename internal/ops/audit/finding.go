package audit

import (
	"fmt"
	"strings"

	"binnacle/internal/telemetry"
)

// Kind is the kind of a fault.
type Kind string

// The kinds of findings.
const (
	Gap       Kind = "gap"       // a number is missing, or offsets are skipped between two chunks of a chain
	Overlap   Kind = "overlap"   // a chunk begins before the one before it ends
	Order     Kind = "order"     // a chunk's own offsets do not follow: after < first <= through
	Misplaced Kind = "misplaced" // a chunk lies under another key than the snapshot gives
	Duplicate Kind = "duplicate" // a chunk lies under several keys
	Foreign   Kind = "foreign"   // a chunk has instants of another day than its id
	Orphan    Kind = "orphan"    // a chunk is of an unknown tenant or stream
	Damaged   Kind = "damaged"   // a document is no chunk, or its columns can't be decoded
	Beyond    Kind = "beyond"    // a chunk, or the group, has offsets that the log never had
	Lost      Kind = "lost"      // records are in no chunk and in no dead letter
	Count     Kind = "count"     // a chunk has another number of readings than the log
)

// Finding is one thing that is wrong. What does not apply is empty; Number is -1 where no chunk is meant, and offsets
// are -1 where none are.
type Finding struct {
	Kind      Kind   `json:"kind"`
	Tenant    string `json:"tenant,omitempty"`
	Device    string `json:"device,omitempty"`
	Day       string `json:"day,omitempty"`
	Topic     string `json:"topic,omitempty"` // topic of a finding about the log, not about a chunk
	Stream    uint32 `json:"stream,omitempty"`
	Partition int32  `json:"partition"`
	Number    int64  `json:"number"`
	First     int64  `json:"first"`   // offsets that the finding is about, both inclusive
	Through   int64  `json:"through"` //
	Container string `json:"container,omitempty"`
	Shard     string `json:"shard,omitempty"`
	ID        string `json:"id,omitempty"`
	Detail    string `json:"detail"`
}

// String returns the finding as a line.
func (f Finding) String() string {
	words := []string{fmt.Sprintf("%-9s", f.Kind)}
	add := func(there bool, format string, args ...any) {
		if there {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(f.Tenant != "", "%s/%s", f.Tenant, f.Device)
	add(f.Day != "", "%s", f.Day)
	add(f.Topic != "", "topic %s", f.Topic)
	add(f.Stream > 0, "stream %d", f.Stream)
	add(f.Partition >= 0, "partition %d", f.Partition)
	add(f.Number >= 0, "number %d", f.Number)
	add(f.First >= 0, "offsets %d to %d", f.First, f.Through)
	add(f.Container != "", "in %s %s %s", f.Container, f.Shard, f.ID)
	return strings.Join(words, " ") + ": " + f.Detail
}

func (e *entry) finding(k Kind, format string, args ...any) Finding {
	return Finding{
		Kind: k, Tenant: e.tenant(), Device: e.key.Device, Day: dayText(e.id.Day), Stream: e.id.Stream,
		Partition: e.id.Partition, Number: int64(e.id.Number), First: e.first, Through: e.through,
		Container: e.key.Container, Shard: e.key.TenantShard, ID: e.id.String(), Detail: fmt.Sprintf(format, args...),
	}
}

func (c chain) finding(f Finding) Finding {
	f.Tenant, f.Device, f.Day, f.Stream, f.Partition = c.tenant, c.device, dayText(c.day), c.stream, c.partition
	return f
}

func dayText(d telemetry.Day) string {
	s := d.String()
	return s[:4] + "-" + s[4:6] + "-" + s[6:]
}
