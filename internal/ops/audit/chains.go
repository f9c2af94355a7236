package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/report"
	"binnacle/sharding"
)

// chains lists the chunks in each chain, by number, each once.
type chains map[chain][]*entry

// linkChains sorts chunks into chains, and returns which of them lie under several keys. Of those the one that lies
// where it belongs counts.
func linkChains(entries []*entry) (chains, []Finding) {
	all := make(chains)
	for _, e := range entries {
		all[e.chain()] = append(all[e.chain()], e)
	}
	var found []Finding
	for c, of := range all {
		slices.SortFunc(of, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(a.id.Number, b.id.Number), place(a)-place(b), compareKeys(a.key, b.key))
		})
		once := of[:1]
		for _, e := range of[1:] {
			kept := once[len(once)-1]
			if e.id == kept.id {
				found = append(found, e.finding(Duplicate, "it also lies in %s under %s", kept.key.Container,
					kept.key.TenantShard))
				continue
			}
			once = append(once, e)
		}
		all[c] = once
	}
	return all, found
}

func place(e *entry) int {
	if e.misplaced {
		return 1
	}
	return 0
}

func compareKeys(a, b sharding.Key) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.TenantShard, b.TenantShard))
}

// own returns what a chunk's header alone shows to be wrong.
func (e *entry) own() (found []Finding) {
	day := telemetry.Range{From: e.id.Day.Start(), To: e.id.Day.End()}
	switch {
	case e.from > e.to:
		found = append(found, e.finding(Foreign, "its first instant, %d, lies after its last, %d", e.from, e.to))
	case !day.Contains(e.from) || !day.Contains(e.to):
		found = append(found, e.finding(Foreign, "its instants, %d to %d, are not within its day", e.from, e.to))
	}
	if e.first <= e.after || e.through < e.first {
		found = append(found, e.finding(Order, "after %d, first %d, through %d do not follow", e.after, e.first,
			e.through))
	}
	return found
}

// check holds I4: numbers from 0 without a gap, and each chunk continues where the one before it ended.
func (c chain) check(of []*entry) (found []Finding) {
	number, through := int64(0), int64(-1)
	for _, e := range of {
		switch n := int64(e.id.Number); {
		case n == number+1:
			found = append(found, c.finding(Finding{Kind: Gap, Number: number, First: through + 1, Through: e.after,
				Detail: "the chunk is missing"}))
		case n > number:
			found = append(found, c.finding(Finding{Kind: Gap, Number: number, First: through + 1, Through: e.after,
				Detail: fmt.Sprintf("the chunks up to number %d are missing", n-1)}))
		case e.after > through:
			found = append(found, e.finding(Gap, "it goes on after offset %d, but the one before it ends at %d", e.after,
				through))
		case e.after < through:
			found = append(found, e.finding(Overlap, "it goes on after offset %d, but the one before it ends at %d", e.after,
				through))
		}
		number, through = int64(e.id.Number)+1, e.through
	}
	return found
}

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

// Summary is what an audit has seen, and what it took.
type Summary struct {
	Days   int `json:"days"`
	Chains int `json:"chains"`
	Chunks int `json:"chunks"`
	// Readings counts readings in chunks.
	Readings    int64         `json:"readings"`
	Log         bool          `json:"log"`     // the log was to be read
	InLog       int64         `json:"inLog"`   // records that the log has
	Records     int64         `json:"records"` // committed records, which were read
	Unread      int64         `json:"unread"`  // how many of Records have a schema in a registry, which is not read
	DeadLetters int64         `json:"letters"` // dead letters that were read
	Findings    int           `json:"findings"`
	SetBack     []SetBack     `json:"setBack,omitempty"`
	RUs         float64       `json:"rus"`
	Took        time.Duration `json:"-"`
}

// ErrLogUnread says that an audit of the log has read nothing of it.
var ErrLogUnread = errors.New("nothing of the log was looked at, because the group has committed nothing of it: " +
	"ask again when ingesters have stored readings, or with their --group")

// Check returns ErrLogUnread where the log was to be read and nothing of it was.
func (s Summary) Check() error {
	if s.Log && s.Records == 0 && s.InLog > 0 {
		return ErrLogUnread
	}
	return nil
}

// found says how much was found, and in what.
func (s Summary) found() string {
	if s.Check() != nil {
		return fmt.Sprintf("%d in the store; the log was not looked at", s.Findings)
	}
	return fmt.Sprint(s.Findings)
}

// Print writes the summary for people, or as a line of JSON.
func (s Summary) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(map[string]Summary{"summary": s})
	}
	rows := [][]string{
		{"days", fmt.Sprint(s.Days)}, {"chains", fmt.Sprint(s.Chains)}, {"chunks", fmt.Sprint(s.Chunks)},
		{"readings", fmt.Sprint(s.Readings)},
	}
	if s.Log {
		rows = append(rows, []string{"records of the log", fmt.Sprintf("%d of %d, the committed ones", s.Records, s.InLog)},
			[]string{"dead letters", fmt.Sprint(s.DeadLetters)})
	}
	if s.Unread > 0 {
		rows = append(rows, []string{"records without a schema", fmt.Sprint(s.Unread)})
	}
	for _, b := range s.SetBack {
		rows = append(rows, []string{fmt.Sprintf("set back %s/%d", b.Topic, b.Partition),
			fmt.Sprintf("from %d to %d", b.From, b.To)})
	}
	rows = append(rows, []string{"request units", fmt.Sprintf("%.0f", s.RUs)},
		[]string{"time", s.Took.Round(time.Millisecond).String()}, []string{"findings", s.found()})
	return report.List(w, rows)
}

// compare orders findings by tenant, device, day and place.
func compare(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Day, b.Day),
		cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Number, b.Number),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Shard, b.Shard),
		cmp.Compare(a.ID, b.ID))
}
