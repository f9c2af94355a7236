package emulator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// recordings is where the recorded exchanges of a hosted account stand, beside the module; they are no part of it.
const recordings = "../../../../shared/facts/recordings.json"

// misses are the aspects that stay different, by step and aspect, each with its reason: docs/reference/emulator.md.
var misses = map[string]string{
	"157": "user-defined functions are refused", "160": "stored procedures are refused", "161": "triggers are refused",
	"148 write": "what a unique key, a time to live and a composite index add together follows no known rule",
	"150 write": "what a unique key, a time to live and a composite index add together follows no known rule",
}

// scripts is the step from which on LSNs are behind by what refused scripts would have counted: three.
const scripts = 157

// The emulator answers what a hosted account has answered, in all that is known of it.
func TestRecordings(t *testing.T) {
	text, err := os.ReadFile(recordings)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the recordings are not there: " + recordings)
	}
	require.NoError(t, err)
	var file recorded
	require.NoError(t, json.Unmarshal(text, &file))
	s := newScore()
	file.replay(t, s)
	t.Log("\n" + s.String())
	for name, reason := range misses {
		t.Log("known to differ:", name, reason)
	}
	require.Empty(t, s.unexplained())
	require.GreaterOrEqual(t, float64(s.right()), 0.95*float64(s.stated()))
}

type recorded struct {
	Session []struct {
		Step    int
		Request call
	}
	Records []record
}

type record struct {
	Step     int
	What     string
	Request  call
	Response expectation
}

type call struct {
	Method, Path string
	Headers      map[string]string
	Body         json.RawMessage
}

type expectation struct {
	Status       int
	Substatus    *int
	Charge       *float64
	LSN          *uint64 `json:"lsn"`
	Items        *int    `json:"item_count"`
	By           string
	ETag         any    `json:"etag"`
	Summary      string `json:"body_summary"`
	Plan         map[string]any
	Continuation string
	Charges      []float64
	Statuses     []int
	Numbers      map[string]string `json:"number_text"`
	RetryAfter   any               `json:"retry_after_ms"`
	Headers      map[string]string
}

// replay sends all requests in order by a clock of its own, and scores those that are recorded. The queries of the
// burst came at once, so any of them may be any other.
func (f recorded) replay(t *testing.T, s *score) {
	now := &clock{time.Date(2026, 10, 10, 9, 1, 0, 0, time.UTC)}
	r := replayer{t: t, server: open(t, emulator.Config{Now: now.now})}
	for _, other := range []string{"other1", "other2"} { // the account had two more
		r.do(call{Method: "POST", Path: "/dbs", Body: json.RawMessage(`{"id":"` + other + `"}`)})
	}
	requests, records := map[int]call{}, map[int]record{}
	var steps []int
	for _, s := range f.Session {
		requests[s.Step] = s.Request
		steps = append(steps, s.Step)
	}
	for _, rec := range f.Records {
		requests[rec.Step], records[rec.Step] = rec.Request, rec
		steps = append(steps, rec.Step)
	}
	slices.Sort(steps)
	var burst []record
	for _, step := range slices.Compact(steps) {
		rec, scored := records[step]
		if scored && strings.HasPrefix(rec.What, "one of 30 queries at once") {
			burst = append(burst, rec)
			continue
		}
		if len(burst) > 0 {
			now.advance(10 * time.Second)
			r.burst(s, burst)
			now.advance(10 * time.Second)
			burst = nil
		}
		now.advance(4 * time.Second)
		a := r.do(requests[step])
		if scored {
			s.note(rec, a)
		}
	}
}

// burst sends 30 queries at one instant. Which of them were refused is as chance would have it.
func (r *replayer) burst(s *score, records []record) {
	var answers []answered
	for range 30 {
		answers = append(answers, r.do(records[0].Request))
	}
	for _, rec := range records {
		i := max(0, slices.IndexFunc(answers, func(a answered) bool { return a.status == rec.Response.Status }))
		s.note(rec, answers[i])
		answers = slices.Delete(answers, i, i+1)
	}
}

// score counts the aspects of recorded answers that are stated, and those that are right.
type score struct {
	kinds []string
	of    map[string]*[2]int
	wrong []string
}

func newScore() *score { return &score{of: map[string]*[2]int{}} }

// aspect scores one aspect of a record.
func (s *score) aspect(rec record, kind string, ok bool, got, want any) {
	n := s.of[kind]
	if n == nil {
		n = &[2]int{}
		s.of[kind] = n
		s.kinds = append(s.kinds, kind)
	}
	n[1]++
	if ok {
		n[0]++
		return
	}
	s.wrong = append(s.wrong, fmt.Sprintf("%d %s: %v, recorded %v (%s)", rec.Step, kind, got, want, rec.What))
}

func (s *score) right() (n int) {
	for _, of := range s.of {
		n += of[0]
	}
	return n
}

func (s *score) stated() (n int) {
	for _, of := range s.of {
		n += of[1]
	}
	return n
}

// String returns the table by kind, and below it what is wrong.
func (s *score) String() string {
	var b strings.Builder
	b.WriteString("| aspect | right | stated |\n|---|---|---|\n")
	for _, k := range s.kinds {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", k, s.of[k][0], s.of[k][1])
	}
	fmt.Fprintf(&b, "| all | %d | %d |\n\n%s\n", s.right(), s.stated(), strings.Join(s.wrong, "\n"))
	return b.String()
}

// unexplained returns what is wrong without a reason in misses.
func (s *score) unexplained() []string {
	var out []string
	for _, w := range s.wrong {
		var step int
		var kind string
		_, _ = fmt.Sscanf(w, "%d %s", &step, &kind)
		kind = strings.TrimSuffix(kind, ":")
		behind := step >= scripts && (kind == "LSN" || kind == "etag")
		if misses[fmt.Sprint(step)] == "" && misses[fmt.Sprint(step, " ", kind)] == "" && !behind {
			out = append(out, w)
		}
	}
	return out
}
