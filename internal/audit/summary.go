package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"binnacle/internal/report"
)

// Summary is what an audit has seen, and what it took.
type Summary struct {
	Days        int           `json:"days"`
	Chains      int           `json:"chains"`
	Chunks      int           `json:"chunks"`
	Readings    int64         `json:"readings"` // in chunks
	Records     int64         `json:"records"`  // of the log that were read
	Unread      int64         `json:"unread"`   // of those, records with a schema in a registry, which is not read
	DeadLetters int64         `json:"letters"`  // dead letters that were read
	Findings    int           `json:"findings"`
	SetBack     []SetBack     `json:"setBack,omitempty"`
	RUs         float64       `json:"rus"`
	Took        time.Duration `json:"-"`
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
	if s.Records > 0 || s.DeadLetters > 0 {
		rows = append(rows, []string{"records of the log", fmt.Sprint(s.Records)},
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
		[]string{"time", s.Took.Round(time.Millisecond).String()}, []string{"findings", fmt.Sprint(s.Findings)})
	return report.List(w, rows)
}

// compare orders findings by tenant, device, day and place.
func compare(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Day, b.Day),
		cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Number, b.Number),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Shard, b.Shard),
		cmp.Compare(a.ID, b.ID))
}
