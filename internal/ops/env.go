// Package ops is what operators' commands do: tenants, tokens, erasures, copies, exports, costs, partitions, open
// bins; and the endpoints that do the same for the page of operators. Its settings are those of the commands. Package
// app wires its endpoints into roles.
package ops

import (
	"encoding/json"
	"io"
	"log/slog"

	"binnacle/internal/stream/topics"
)

// Default topics.
const (
	Topic       = topics.Default
	DeadLetters = "telemetry.dlq"
)

// Env is the environment of a subcommand besides its settings.
type Env struct {
	Command string // for the log, such as dev
	Stdout  io.Writer
	// Ask asks a person on the terminal; nil: no terminal.
	Ask func(question string) (answer string, err error)
	// Progress is a terminal that may show how far the subcommand is; nil: none.
	Progress io.Writer
	Logger   *slog.Logger
	// Fatal ends the process at once, for a reason: what was acknowledged cannot be kept any longer. Nil: it panics.
	Fatal func(error)
}

// print prints an answer as a line of JSON, or calls text where no JSON is asked for.
func (e Env) print(asJSON bool, answer any, text func(w io.Writer) error) error {
	if asJSON {
		return json.NewEncoder(e.Stdout).Encode(answer)
	}
	return text(e.Stdout)
}
