package admit

import (
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// Judge decides where readings may be stored.
type Judge struct{ p places }

// NewJudge returns a Judge that has judged nothing yet.
func NewJudge(cfg Config) *Judge { return &Judge{places{cfg: &cfg}} }

// Judge returns what the only reading of a record still needs, or why it is refused. quick reports whether it was
// accepted for the reasons that another one had.
func (j *Judge) Judge(rec Record, r telemetry.Reading, s *control.Snapshot, now time.Time) (
	bad *decode.Bad, quick bool, needs error) {
	f := feed{Record: rec, Moment: Moment{Snapshot: s, Now: now}, readings: []telemetry.Reading{r}}
	quick = j.p.accepted.has(&f, &r)
	if err := j.p.placeable(&f); err != nil {
		return nil, quick, err
	}
	return j.p.refusal(&f, &r), quick, nil
}
