package engine

import (
	"log/slog"
	"os"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
)

// Config says how an account keeps its data and what it models. All of it must be set, but for Write.
type Config struct {
	DataDir  string // not used in memory
	InMemory bool   // no log, nothing outlives Close
	Sync     bool   // an acknowledged write survives a power failure
	// PhysicalPartitions is the number of physical partitions in every new container; 0: the throughput
	// decides.
	PhysicalPartitions int
	Serverless         bool // the mode of a new account
	Rules              budget.Rules
	Limits             Limits
	SplitTakes         time.Duration
	Model              ru.Model
	Logger             *slog.Logger

	// Fatal ends the process: the data directory cannot be written any more. Nothing is acknowledged after it was called.
	Fatal func(error)

	// Write replaces File.Write in the data directory: tests fill a disk with it.
	Write func(*os.File, []byte) (int, error)
}
