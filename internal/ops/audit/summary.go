package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"binnacle/internal/text/report"
)

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
