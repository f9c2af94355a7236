// Command binnacle is all of Binnacle: each role and each tool is a subcommand. This package only parses flags;
// internal/app builds the roles.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"binnacle/internal/app"
	"binnacle/internal/cosmos"
	"binnacle/internal/ops"
	"binnacle/internal/ops/audit"
	"binnacle/internal/ops/replay"
	"binnacle/internal/text/report"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// commands are the subcommands and their common flags. kong calls the methods Run and, for the text below the flags,
// Help of a subcommand.
type commands struct {
	Config   kong.ConfigFlag `help:"YAML file with values of flags that neither the command line nor a BINNACLE_* variable sets." placeholder:"FILE"`
	LogLevel slog.Level      `help:"Lowest level of the log on stderr: debug, info, warn or error." default:"info"`

	LogFormat   string  `help:"Format of the log on stderr: text or json." enum:"text,json" default:"text"`
	PrintConfig bool    `help:"Print the values of the subcommand's flags as YAML for --config, without secrets, and exit."`
	HelpAll     helpAll `help:"Show all flags of the subcommand and exit." env:"-"`

	Dev       command[app.DevConfig]       `cmd:"" group:"Start" help:"Run everything in one process: Kafka, Cosmos DB, ingest, queries and a small simulated fleet."`
	Serve     command[app.ServeConfig]     `cmd:"" group:"Roles" help:"Run all roles in one process on a Kafka cluster and a Cosmos DB account."`
	Ingest    command[app.IngestConfig]    `cmd:"" group:"Roles" help:"Read messages from Kafka and store chunks in Cosmos DB."`
	Query     command[app.QueryRoleConfig] `cmd:"" group:"Roles" help:"Answer queries over HTTP."`
	Rollups   rollupsCommand               `cmd:"" group:"Roles" help:"Make rollups, which panels over many devices read instead of chunks; list, rebuild and drop them."`
	Provision command[app.ProvisionConfig] `cmd:"" group:"Roles" help:"Create containers ahead of time and set their throughput by age."`

	Replay  replayCommand              `cmd:"" group:"Publish and ask" help:"Publish readings from a file of CSV, NDJSON or Influx line protocol, or publish dead letters again."`
	Fleet   command[app.FleetConfig]   `cmd:"" group:"Publish and ask" help:"Publish readings of simulated trucks."`
	Explain command[ops.ExplainConfig] `cmd:"" group:"Publish and ask" help:"Run a query and show which keys it reads, its expected and its actual cost."`
	Gaps    gapsCommand                `cmd:"" group:"Publish and ask" help:"Find gaps in a device's readings and their causes."`

	Tenant     tenantCommand                   `cmd:"" group:"Operate" help:"Manage tenants: settings, tokens, retention, cost, copies, exports and erasures."`
	Erase      eraseCommand                    `cmd:"" group:"Operate" help:"Write and check certificates of erasures; give orders again to a restored account."`
	Partitions onAccount[ops.PartitionsConfig] `cmd:"" group:"Operate" help:"Show how hot the physical partitions of a container are, now and by forecast, and why."`
	Bins       command[ops.BinsConfig]         `cmd:"" group:"Operate" help:"Show the open bins of ingesters by partition, tenant and device."`
	Limits     command[ops.LimitsConfig]       `cmd:"" group:"Operate" help:"Show which tenants exceed their ingest limits, and which readings wait."`
	Actions    onAccount[ops.ActionsConfig]    `cmd:"" group:"Operate" help:"List what operators and provision have changed: tokens, limits, backfills, containers."`
	Audit      auditCommand                    `cmd:"" group:"Operate" help:"Check that stored chunks have no gap, no overlap and no misplaced document."`
	Doctor     doctorCommand                   `cmd:"" group:"Operate" help:"Check a Cosmos DB account: rights, latency, physical partitions, and charges compared with the model."`
	Chunk      onAccount[ops.ChunkConfig]      `cmd:"" group:"Operate" help:"Print a stored chunk as text."`
	Version    versionCommand                  `cmd:"" group:"Operate" help:"Show the version of this binary and of the formats that it reads."`

	Plan        planCommand        `cmd:"" group:"Plan and compare" help:"Plan an account for a workload: what it needs and costs, and why."`
	Loadtest    loadtestCommand    `cmd:"" group:"Plan and compare" help:"Compare data layouts under one load: hot partitions, and how they are avoided."`
	Xray        xrayCommand        `cmd:"" group:"Plan and compare" help:"Show what the partition key of any container does to its physical partitions, and what others would do."`
	Blogexample blogexampleCommand `cmd:"" group:"Plan and compare" help:"Measure a published data model on the embedded Cosmos DB, next to its published charges."`

	Emulator command[app.EmulatorConfig] `cmd:"" group:"Embedded servers" help:"Run the embedded Cosmos DB alone."`
	Broker   command[app.BrokerConfig]   `cmd:"" group:"Embedded servers" help:"Run the embedded Kafka alone."`
}

// env is the environment of a subcommand besides its flags.
type env struct {
	command string
	ctx     context.Context
	stdout  io.Writer
	stderr  io.Writer
	console *os.File // stderr as it is
	log     *slog.Logger
}

func (e *env) app() ops.Env {
	out := ops.Env{Command: e.command, Stdout: e.stdout, Progress: e.progress(), Logger: e.log,
		Fatal: func(err error) { os.Exit(fail(e.stderr, err)) }}
	if isTerminal(os.Stdin) {
		out.Ask = e.ask
	}
	return out
}

// progress returns the terminal that may show how far a subcommand is, nil for none.
func (e *env) progress() io.Writer {
	if isTerminal(e.console) {
		return e.console
	}
	return nil
}

// confirm asks on the terminal whether a subcommand may go on.
func (e *env) confirm(question string) error {
	answer, err := e.ask(question + " [y/N] ")
	if err != nil || !strings.EqualFold(answer, "y") {
		return errors.New("canceled: nothing was created")
	}
	return nil
}

// ask returns the answer of the person at the terminal, a line.
func (e *env) ask(question string) (string, error) {
	fmt.Fprint(e.stderr, question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out io.Writer, console *os.File) int {
	stdout, stderr := report.Terminal(out), report.Terminal(console)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	var cli commands
	exit := -1
	isBare := len(args) == 0
	switch {
	case isBare:
		args = []string{"--help"}
	case slices.Equal(args, []string{"--version"}):
		args = []string{"version"}
	}
	parser := newParser(&cli, onlyCommand(args[0]), kong.Configuration(readSettings), kong.ConfigureHelp(helpOptions),
		kong.Help(printShortHelp), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }))
	addDetails(parser.Model.Node, "")
	hideKeys(parser.Model.Node, "")
	command, err := parser.Parse(joinNegative(args))
	switch {
	case exit >= 0 && isBare:
		return 1
	case exit >= 0:
		return exit // help was printed
	}
	if err == nil {
		err = refuseKeys(command)
	}
	if err != nil {
		return fail(stderr, suggest(err))
	}
	warnOfVariables(parser.Model, os.Environ(), cli.logger(stderr))
	if cli.PrintConfig {
		err = printSettings(stdout, command)
	} else {
		err = command.Run(&env{command.Command(), ctx, stdout, stderr, console, cli.logger(report.Terminal(console))})
	}
	if err != nil {
		return fail(stderr, errors.New(nameKeys(pathOf(command.Selected()), err.Error())))
	}
	return 0
}

func (c *commands) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func fail(stderr io.Writer, err error) int {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	fmt.Fprintln(stderr, "binnacle:", strings.Join(lines, "; "))
	return 1
}

type auditCommand struct {
	Config  audit.Config      `kong:"embed"`
	Account ops.AccountConfig `kong:"embed,group='Account'"`
}

func (c *auditCommand) Run(e *env) error {
	cfg := c.Config
	cfg.Progress = e.progress()
	client, err := c.Account.Connect(e.log)
	if err != nil {
		return err
	}
	defer client.Close()
	stores := audit.Stores{
		Headers:    client.Chunks().At(cosmos.Priority{Low: true}),
		Containers: client.Containers(), Documents: client.Documents(),
	}
	sum, err := audit.Run(e.ctx, cfg, stores, func(f audit.Finding) error {
		if cfg.JSON {
			return json.NewEncoder(e.stdout).Encode(f)
		}
		_, err := fmt.Fprintln(e.stdout, f)
		return err
	})
	if err != nil {
		return err
	}
	if err := sum.Print(e.stdout, cfg.JSON); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	if sum.Findings > 0 {
		return fmt.Errorf("%d findings", sum.Findings)
	}
	return sum.Check()
}

type replayCommand struct {
	Config replay.Config `kong:"embed"`

	Backfill    bool              `help:"Allow a backfill for the file's readings: they are accepted at any age within the tenant's retention." group:"Backfill"`
	BackfillFor time.Duration     `name:"backfill-for" help:"Lifetime of the backfill permission." default:"7d" group:"Backfill"`
	Account     ops.AccountConfig `kong:"embed,group='Backfill'"` // where the grant is written
}

func (c *replayCommand) Run(e *env) error {
	cfg := c.Config
	cfg.Progress = e.progress()
	if c.Backfill {
		backfills, err := ops.NewBackfills(c.Account, e.log)
		if err != nil {
			return err
		}
		defer backfills.Close()
		backfills.Lasts, backfills.Says, backfills.DryRun = c.BackfillFor, e.stdout, cfg.DeadLetters.DryRun
		cfg.Grant = backfills.Allow
		if !cfg.DeadLetters.FromDLQ && cfg.Validate() == nil {
			if cfg.Topic, err = backfills.Topic(e.ctx, cfg.Kafka, cfg.Group, cfg.Topic); err != nil {
				return err
			}
		}
	}
	if cfg.DeadLetters.FromDLQ {
		summary, err := replay.RunDeadLetters(e.ctx, cfg)
		if summary.Selected > 0 || err == nil {
			err = errors.Join(err, printed(summary.Print(e.stdout)))
		}
		return err
	}
	summary, err := replay.Run(e.ctx, cfg)
	if summary.Records > 0 || err == nil && !cfg.DeadLetters.DryRun {
		err = errors.Join(err, printed(summary.Print(e.stdout)))
	}
	return err
}

func printed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("print the summary: %w", err)
}
