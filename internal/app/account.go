package app

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/retry"
	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
)

func (p *process) connect(c ops.AccountConfig) (*cosmos.Client, error) {
	cfg, err := c.Client(p.partLogger("cosmos"))
	if err != nil {
		return nil, err
	}
	return p.openClient(cfg)
}

// openClient makes a client, and adds the stage that writes what its requests cost.
func (p *process) openClient(cfg cosmos.Config) (*cosmos.Client, error) {
	p.heat = heatlog.NewCollector(heatlog.Config{Role: p.Command, Logger: p.partLogger("heat")})
	p.charges = ops.NewChargesCounter(p.Command)
	cfg.Registerer, cfg.Heat, cfg.Charges = p.metrics, p.heat, p.charges
	client, err := cosmos.New(cfg)
	if err != nil {
		return nil, err
	}
	p.onClose("the client of Cosmos DB", func() error { client.Close(); return nil })
	p.paceBy(client)
	writer := heatlog.NewChargesWriter(p.charges, client.Heat(), retry.Trouble{Log: p.partLogger("charges")})
	if p.dataDir != "" {
		// Of this account: the next process of the directory may have another one.
		of := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(cfg.Endpoint)))
		if err := writer.KeepIn(filepath.Join(p.dataDir, "charges", of)); err != nil {
			return nil, err
		}
	}
	p.add("charges", writer.Run)
	p.add("heat", func(ctx context.Context) error { return p.heat.Run(ctx, client.Heat()) })
	return client, nil
}

// connectTo returns a client of an emulator in this process, without a network between.
func (p *process) connectTo(s *emulator.Server) (*cosmos.Client, error) {
	return p.openClient(cosmos.Config{
		Endpoint: s.Endpoint(), Credential: cosmos.FixedKey(emulator.Key), Transport: s.Transport(),
		Logger: p.partLogger("cosmos"),
	})
}

// account is what roles share of a Cosmos DB account.
type account struct {
	client    *cosmos.Client
	directory *control.Directory
}

// openAccount reads the tenants, which must exist, and adds the stage that keeps them fresh. base, if not nil, first
// creates what Binnacle needs in the account; without it a role needs no right to create containers.
func (p *process) openAccount(ctx context.Context, client *cosmos.Client, cfg control.DirectoryConfig,
	base func(context.Context) error) (account, error) {
	if base != nil {
		if err := base(ctx); err != nil {
			return account{}, fmt.Errorf("create the database: %w", err)
		}
	}
	if err := client.ReadClock(ctx); err != nil { // snapshots and readings are judged by it
		return account{}, err
	}
	cfg.Feed, cfg.Logger = client.Feed(), p.Logger
	directory := ops.DirectoryOf(client, cfg)
	if _, err := directory.Refresh(ctx); err != nil {
		return account{}, fmt.Errorf("read the tenants: %w", err)
	}
	_, _ = client.Containers().ReadThroughput(ctx, store.ControlContainer) // the stage capacity reports what fails
	if err := p.metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "binnacle_control_damaged_documents",
		Help: "Control documents that can't be understood; the tenants that they are about are left out.",
	}, func() float64 { return float64(len(directory.Snapshot().Damage())) })); err != nil {
		return account{}, err
	}
	p.add("directory", directory.Run)
	return account{client, directory}, nil
}

// waitForAccount calls openAccount until the account answers and provision has created its base.
func (p *process) waitForAccount(ctx context.Context, client *cosmos.Client,
	cfg control.DirectoryConfig) (account, error) {
	var a account
	err := p.untilDone(ctx, "the account", func() (err error) {
		a, err = p.openAccount(ctx, client, cfg, nil)
		return err
	})
	return a, err
}

// unhurried is by how much background work is slower in a serverless account, where each request unit is paid for.
const unhurried = 15

// paceBy slows down the background work of the process while the account is serverless, and adds the stage that asks
// whether it is.
func (p *process) paceBy(client *cosmos.Client) {
	p.life.pace = func(pause time.Duration) time.Duration {
		if client.Containers().IsServerless() {
			return unhurried * pause
		}
		return pause
	}
	pause := time.Duration(0)
	loop := retry.Loop{Log: p.partLogger("cosmos"), Failing: "whether the account is serverless is not known",
		Over: "whether the account is serverless is known", Next: func() time.Duration { return pause }}
	p.add("capacity", func(ctx context.Context) error {
		return loop.Run(ctx, func(ctx context.Context) error {
			_, err := client.Containers().ReadThroughput(ctx, store.ControlContainer)
			switch {
			case errors.Is(err, store.ErrNoContainer): // provision has made nothing yet
				pause, err = 10*time.Second, nil
			case errors.Is(err, store.ErrDenied):
				pause, err = 24*time.Hour, nil
			case err == nil && !client.Containers().IsServerless():
				pause = 24 * time.Hour // it stays provisioned
			default:
				pause = 10 * time.Minute
			}
			return err
		})
	})
}
