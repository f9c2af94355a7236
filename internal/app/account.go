package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/retry"

	"github.com/prometheus/client_golang/prometheus"
)

// AccountConfig sets the Cosmos DB account of a subcommand and its credential.
type AccountConfig struct {
	Cosmos  string   `help:"Address of the Cosmos DB account, host:port or URL." default:"127.0.0.1:8081"`
	Key     string   `help:"Master key of the account. Default: the public key of emulators." placeholder:"KEY" secret:""`
	KeyFile string   `help:"File with the account's keys, one a line. It is read again when a key is refused." placeholder:"FILE"`
	Regions []string `help:"Regions of the account to read from, the nearest first. Default: the account's first region."`

	Identity       string `help:"Entra ID identity to use instead of a key: default, workload, managed or environment." enum:",default,workload,managed,environment" default:"" placeholder:"KIND"`
	IdentityClient string `help:"Client id of the identity, where there are several. Default: the only one." placeholder:"ID"`
}

func (f *faults) account(c AccountConfig) {
	ways := 0
	for _, given := range []bool{c.Key != "", c.KeyFile != "", c.Identity != ""} {
		if given {
			ways++
		}
	}
	f.check(ways <= 1, "--key, --key-file and --identity: at most one of them")
	f.check(c.IdentityClient == "" || c.Identity != "", "--identity-client needs --identity")
}

func (c AccountConfig) credential() (cosmos.Credential, error) {
	switch {
	case c.Identity != "":
		return cosmos.Identity(c.Identity, c.IdentityClient)
	case c.KeyFile != "":
		return cosmos.KeyFile(c.KeyFile), nil
	}
	return cosmos.FixedKey(cmp.Or(c.Key, emulator.Key)), nil
}

// config returns the configuration of a client of the account; host:port means http.
func (c AccountConfig) config(log *slog.Logger) (cosmos.Config, error) {
	var faults faults
	faults.account(c)
	if err := errors.Join(faults...); err != nil {
		return cosmos.Config{}, err
	}
	credential, err := c.credential()
	if err != nil {
		return cosmos.Config{}, err
	}
	addr := c.Cosmos
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	return cosmos.Config{
		Endpoint: strings.TrimSuffix(addr, "/") + "/", Credential: credential, Regions: c.Regions, Logger: log,
	}, nil
}

// Connect returns a client of the account, for a command. What the command is charged is stored when the client is
// closed.
func (c AccountConfig) Connect(log *slog.Logger) (*cosmos.Client, error) {
	cfg, err := c.config(log)
	if err != nil {
		return nil, err
	}
	counter := newChargesCounter(charges.CommandRole)
	cfg.Charges, cfg.Closing = counter, func(client *cosmos.Client) {
		if counter.RUs() < leastStored {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), chargesTimeout)
		defer cancel()
		if err := heatlog.NewChargesWriter(counter, client.Heat(), retry.Trouble{}).Store(ctx); err != nil {
			log.Debug("what the command was charged is not stored", "error", err)
		}
	}
	return cosmos.New(cfg)
}

// leastStored is the RU from which on it is stored what a command was charged: about what storing takes.
const leastStored = 6.0

// chargesTimeout is how long a command waits until that is stored.
const chargesTimeout = 3 * time.Second

func newChargesCounter(role string) *charges.Counter {
	return charges.NewCounter(role + "-" + strings.ToLower(rand.Text()[:8]))
}

func (p *process) connect(c AccountConfig) (*cosmos.Client, error) {
	cfg, err := c.config(p.partLogger("cosmos"))
	if err != nil {
		return nil, err
	}
	return p.openClient(cfg)
}

// openClient makes a client, and adds the stage that writes what its requests cost.
func (p *process) openClient(cfg cosmos.Config) (*cosmos.Client, error) {
	p.heat = heatlog.NewCollector(heatlog.Config{Role: p.Command, Logger: p.partLogger("heat"), Registerer: p.metrics})
	p.charges = newChargesCounter(p.Command)
	cfg.Registerer, cfg.Heat, cfg.Charges = p.metrics, p.heat, p.charges
	client, err := cosmos.New(cfg)
	if err != nil {
		return nil, err
	}
	p.onClose("the client of Cosmos DB", func() error { client.Close(); return nil })
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
	directory := directoryOf(client, cfg)
	if _, err := directory.Refresh(ctx); err != nil {
		return account{}, fmt.Errorf("read the tenants: %w", err)
	}
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

// lead returns how long before its first day an epoch must be stored, so that a snapshot can place every accepted
// event time (rule W1): the accepted future, plus the age of the snapshot and the difference of clocks.
func lead(future time.Duration) time.Duration { return max(2*time.Hour, future+time.Hour) }
