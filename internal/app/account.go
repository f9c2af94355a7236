package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/cosmosemu"
)

// AccountConfig is which Cosmos DB account a subcommand works on.
type AccountConfig struct {
	Cosmos string `help:"Address of Cosmos DB, host:port or URL." default:"127.0.0.1:8081"`
	Key    string `help:"Master key of the account. Default: the emulators' public key." placeholder:"KEY" secret:""`
}

// connect makes a client of the account; host:port means http.
func (c AccountConfig) connect(log *slog.Logger) (*cosmos.Client, error) {
	addr, key := c.Cosmos, c.Key
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	if key == "" {
		key = cosmosemu.Key
	}
	return cosmos.New(cosmos.Config{Endpoint: strings.TrimSuffix(addr, "/") + "/", Credential: cosmos.FixedKey(key), Logger: log})
}

// connectTo makes a client of an emulator in this process, without a network between.
func (p *process) connectTo(s *cosmosemu.Server) (*cosmos.Client, error) {
	client, err := cosmos.New(cosmos.Config{
		Endpoint: s.Endpoint(), Credential: cosmos.FixedKey(cosmosemu.Key), Transport: s.Transport(), Logger: p.part("cosmos"), Registerer: p.metrics,
	})
	if err != nil {
		return nil, err
	}
	p.onClose("the client of Cosmos DB", func() error { client.Close(); return nil })
	return client, nil
}

// account is what roles share of one Cosmos DB account.
type account struct {
	client    *cosmos.Client
	directory *control.Directory
}

// openAccount makes what Binnacle needs in the account, reads the map of tenants, and adds the stage that keeps it fresh.
func (p *process) openAccount(ctx context.Context, client *cosmos.Client, cfg control.DirectoryConfig) (account, error) {
	if err := client.EnsureBase(ctx); err != nil {
		return account{}, fmt.Errorf("make the database: %w", err)
	}
	cfg.Documents, cfg.Logger = client.Documents(), p.Logger
	directory := control.NewDirectory(cfg)
	if _, err := directory.Refresh(ctx); err != nil {
		return account{}, fmt.Errorf("read the map of tenants: %w", err)
	}
	p.add("directory", directory.Run)
	return account{client, directory}, nil
}

// lead is how long before its first day an epoch must be stored, so that a copy of the map can place whatever event time is
// accepted (rule W1): the accepted future with room for the copy's age and for clocks that differ.
func lead(future time.Duration) time.Duration { return max(2*time.Hour, future+time.Hour) }
