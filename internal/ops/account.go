// Package ops is what operators' commands do: tenants, tokens, erasures, copies, exports, costs, partitions, open
// bins; and the endpoints that do the same for the page of operators. Its settings are those of the commands. Package
// app wires its endpoints into roles.
package ops

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/stream/topics"
)

// AccountConfig sets the Cosmos DB account of a subcommand and its credential.
type AccountConfig struct {
	Cosmos  string   `help:"Address of the Cosmos DB account, host:port or URL." default:"127.0.0.1:8081"`
	Key     string   `help:"Master key of the account. Default: the public key of emulators." placeholder:"KEY" secret:""`
	KeyFile string   `help:"File with the account's keys, one a line. It is read again when a key is refused." placeholder:"FILE"`
	Regions []string `help:"Regions of the account to read from, the nearest first. Default: the account's first region."`

	Identity string `help:"Entra ID identity to use instead of a key: default, workload, managed or environment." enum:",default,workload,managed,environment" default:"" placeholder:"KIND"`
	Capacity string `help:"Capacity mode of the account. auto: it is asked, if the identity may read throughput. provision refuses an account of another mode." enum:"auto,serverless,provisioned" default:"auto"`

	IdentityClient string `help:"Client id of the identity, where there are several. Default: the only one." placeholder:"ID"`
}

// Validate reports every fault of the settings.
func (c AccountConfig) Validate() error {
	var faults settings.Faults
	ways := 0
	for _, given := range []bool{c.Key != "", c.KeyFile != "", c.Identity != ""} {
		if given {
			ways++
		}
	}
	faults.Check(ways <= 1, "--key, --key-file and --identity: at most one of them")
	faults.Check(c.IdentityClient == "" || c.Identity != "", "--identity-client needs --identity")
	return faults.Err()
}

// Credential returns how clients of the account authenticate.
func (c AccountConfig) Credential() (cosmos.Credential, error) {
	switch {
	case c.Identity != "":
		return cosmos.Identity(c.Identity, c.IdentityClient)
	case c.KeyFile != "":
		return cosmos.KeyFile(c.KeyFile), nil
	}
	return cosmos.FixedKey(cmp.Or(c.Key, emulator.Key)), nil
}

// Client returns the configuration of a client of the account; host:port means http.
func (c AccountConfig) Client(log *slog.Logger) (cosmos.Config, error) {
	if err := c.Validate(); err != nil {
		return cosmos.Config{}, err
	}
	credential, err := c.Credential()
	if err != nil {
		return cosmos.Config{}, err
	}
	addr := c.Cosmos
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	return cosmos.Config{
		Endpoint: strings.TrimSuffix(addr, "/") + "/", Credential: credential, Regions: c.Regions, Logger: log,
		Serverless: c.Capacity == "serverless",
	}, nil
}

// Connect returns a client of the account, for a command. Its charges are stored when the client is closed.
func (c AccountConfig) Connect(log *slog.Logger) (*cosmos.Client, error) {
	cfg, err := c.Client(log)
	if err != nil {
		return nil, err
	}
	counter := NewChargesCounter(charges.CommandRole)
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

// OnAccount runs a command on an account.
type OnAccount[C interface {
	Run(ctx context.Context, client *cosmos.Client, env Env) error
}] struct {
	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
	Config  C             `kong:"embed"`
}

// Run connects to the account, and runs the command.
func (c OnAccount[C]) Run(ctx context.Context, env Env) error {
	client, err := c.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	return c.Config.Run(ctx, client, env)
}

// leastStored is the RU from which on it is stored what a command was charged: about what storing takes.
const leastStored = 6.0

// chargesTimeout is how long a command waits until that is stored.
const chargesTimeout = 3 * time.Second

func NewChargesCounter(role string) *charges.Counter {
	return charges.NewCounter(role + "-" + strings.ToLower(rand.Text()[:8]))
}

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

// Reason returns an error without the path, which the caller names.
func Reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
