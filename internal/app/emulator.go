package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"binnacle/internal/cosmosemu"
	"binnacle/internal/ru"
)

// EmulatorConfig is what `binnacle emulator` runs with.
type EmulatorConfig struct {
	Cosmos             string
	DataDir            string
	PhysicalPartitions int
	Sync               bool
	Linear             bool
	Unlimited          bool

	Stdout io.Writer
	Logger *slog.Logger
}

// Emulator serves the embedded Cosmos DB alone until the context ends, and returns nil then.
func Emulator(ctx context.Context, cfg EmulatorConfig) error {
	if err := writable(cfg.DataDir); err != nil {
		return err
	}
	model := ru.TableT
	if cfg.Linear {
		model = ru.Linear
	}
	s, err := cosmosemu.Open(cosmosemu.Config{
		DataDir: cfg.DataDir, PhysicalPartitions: cfg.PhysicalPartitions, Sync: cfg.Sync, Unlimited: cfg.Unlimited, Model: model, Logger: cfg.Logger,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := listen("the embedded Cosmos DB", cfg.Cosmos)
	if err != nil {
		return err
	}
	life := newLifecycle(cfg.Logger)
	defer life.stop()
	life.start(stage{"cosmos", s.Run})
	life.start(stage{"cosmos http", serve(l, s)})
	fmt.Fprintf(cfg.Stdout, "binnacle emulator\n  endpoint  http://%s/\n  key       %s\n  data      %s\n", l.Addr(), cosmosemu.Key, cfg.DataDir)
	return life.wait(ctx)
}
