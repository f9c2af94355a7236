package engine

import (
	"log/slog"
	"time"

	"binnacle/internal/cosmosemu/budget"
	"binnacle/internal/ru"
)

// Config says how an account keeps its data and what it models. All of it must be set.
type Config struct {
	DataDir            string // not used in memory
	InMemory           bool   // no log, nothing outlives Close
	Sync               bool   // an acknowledged write survives a power failure
	PhysicalPartitions int    // of every new container; 0: by its throughput
	Rules              budget.Rules
	PrefixVisitsAll    bool // a query over a prefix visits every physical partition
	Limits             Limits
	SplitTakes         time.Duration
	Model              ru.Model
	Logger             *slog.Logger
}
