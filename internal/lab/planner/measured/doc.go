// Package measured makes the workload of a plan from a sample of a Kafka topic or of an account that Binnacle writes.
// It bounds its reads and writes nothing. docs/start/plan.md is its manual.
package measured

import (
	"bytes"
	"fmt"

	"binnacle/internal/lab/planner"
)

// Result is a measured workload.
type Result struct {
	Workload planner.Workload
	// Notes are sentences about the sample.
	Notes []string
}

// YAML returns the workload with the notes as comments, as planner.Parse reads it.
func (r *Result) YAML() ([]byte, error) {
	var out bytes.Buffer
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "# %s\n", note)
	}
	text, err := r.Workload.YAML()
	return append(out.Bytes(), text...), err
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}
