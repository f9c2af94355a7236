package chunks

import (
	"time"

	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
)

// Made is what an answer was made of: known ranges, each as of a version.
type Made struct {
	Inexact bool                    // something was read that leaves no note
	Ranges  map[uint64]kept.Changes // their versions, by number
	Expires int64                   // ms since 1970 UTC: when the first chunk may be gone
	Date    int64                   // the same: when the last read was answered, by the service's clock
	Due     time.Time               // the store must be asked for a range again; zero for no time
}

// add notes which chunks of a range were known. Of several reads of a range the first counts, which saw the least.
func (m *Made) add(found foundRange) {
	if m.Ranges[found.number] == nil {
		m.Ranges[found.number] = found.changes
	}
	m.Date = max(m.Date, found.date)
	m.Due = heads.Earlier(m.Due, found.due)
}

// ChangedSince returns the first instant of a reading that may be in one of two answers and not in the other, as far as
// chunks of known ranges are concerned: kept.Never for none.
func (m *Made) ChangedSince(earlier *Made) int64 {
	if earlier.Expires <= m.Date {
		return kept.Always
	}
	from := int64(kept.Never)
	for number, c := range m.Ranges {
		from = min(from, c.Since(earlier.Ranges[number]))
	}
	return from
}
