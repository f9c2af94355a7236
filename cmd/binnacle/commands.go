package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"binnacle/internal/app"
	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/blogexample"
	"binnacle/internal/lab/xray"
	"binnacle/internal/ops"
	"binnacle/internal/ops/queryclient"
	"binnacle/internal/text/nearest"

	"github.com/alecthomas/kong"
)

// command is a subcommand that is its settings: they run it.
type command[C interface {
	Run(ctx context.Context, env ops.Env) error
}] struct {
	Config C `kong:"embed"`
}

// Run runs the subcommand.
func (c *command[C]) Run(e *env) error { return c.Config.Run(e.ctx, e.app()) }

// onAccount is a subcommand on an account.
type onAccount[C interface {
	Run(ctx context.Context, client *cosmos.Client, env ops.Env) error
}] struct {
	Config ops.OnAccount[C] `kong:"embed"`
}

// Run connects to the account, and runs the subcommand.
func (c *onAccount[C]) Run(e *env) error { return c.Config.Run(e.ctx, e.app()) }

// rollupsCommand is the role that makes rollups, and the commands of operators for them.
type rollupsCommand struct {
	Run     command[app.RollupsRoleConfig] `cmd:"" default:"withargs" help:"Make rollups and correct them, until stopped."`
	List    onAccount[ops.ListRollups]     `cmd:"" help:"List the rollups of tenants by day and metric, with their sizes and charges."`
	Rebuild onAccount[ops.RebuildConfig]   `cmd:"" help:"Rebuild rollups within --rollup-budget, while queries and ingest continue."`
	Drop    onAccount[ops.DropRollups]     `cmd:"" help:"Delete rollups: queries then read chunks."`
}

type eraseCommand struct {
	Certificate command[ops.CertifyConfig]  `cmd:"" help:"Write the certificate of an erasure that has ended."`
	Restore     command[ops.RestoreConfig]  `cmd:"" help:"Give the orders again that a restored account lacks."`
	Verify      onAccount[ops.VerifyConfig] `cmd:"" help:"Check a certificate of an erasure against the account."`
}

type gapsCommand struct {
	queryclient.Gaps `kong:"embed"`
}

func (c *gapsCommand) Run(e *env) error { return c.Gaps.Run(e.ctx, e.stdout) }

type versionCommand struct {
	JSON bool `name:"json" help:"Print the version as JSON."`
}

func (c *versionCommand) Run(e *env) error { return ops.ThisVersion().Print(e.stdout, c.JSON) }

type doctorCommand struct {
	Config ops.DoctorConfig `kong:"embed"`
}

func (c *doctorCommand) Run(e *env) error {
	if c.Config.Measure && !c.Config.Yes && isTerminal(os.Stdin) {
		err := e.confirm(fmt.Sprintf("Create a container of 400 RU/s in %s, measure it and drop it, for $%.3f (list price)?",
			c.Config.Account.Cosmos, cosmos.ScratchDollars()))
		if err != nil {
			return err
		}
	}
	return c.Config.Run(e.ctx, e.app())
}

type blogexampleCommand struct {
	Config blogexample.Config `kong:"embed"`
	JSON   bool               `name:"json" help:"Print the results as JSON."`
}

func (c *blogexampleCommand) Run(e *env) error {
	c.Config.Progress = e.progress()
	report, err := blogexample.Run(e.ctx, c.Config)
	if err != nil {
		return err
	}
	return printReport(e, c.JSON, report, blogexample.Print)
}

type xrayCommand struct {
	Account ops.AccountConfig `kong:"embed,group='Cosmos DB'"`
	Config  xray.Config       `kong:"embed"`
	Model   ru.Model          `name:"ru-model" help:"Model of charges of writes and reads: step or slope, between the rows of the table of sizes." default:"step"`
	Factors ru.Factors        `name:"ru-factors" help:"Output of binnacle doctor --measure --json, which corrects the model. Default: none." placeholder:"FILE"`
	JSON    bool              `name:"json" help:"Print the result as JSON."`
}

func (c *xrayCommand) Run(e *env) error {
	cfg := c.Config
	if err := cfg.Validate(); err != nil {
		return err
	}
	client, err := c.Account.Connect(e.log)
	if err != nil {
		return err
	}
	defer client.Close()
	cfg.Model, cfg.Progress = c.Model.Corrected(c.Factors), e.stderr
	found, err := xray.Run(e.ctx, cfg, client)
	if err != nil {
		return err
	}
	return printReport(e, c.JSON, found, xray.Print)
}

// printReport prints a report as text, or as JSON.
func printReport[R any](e *env, asJSON bool, report R, print func(io.Writer, R) error) error {
	if asJSON {
		return printJSON(e.stdout, report)
	}
	return print(e.stdout, report)
}

type tenantCommand struct {
	List      onAccount[ops.ListTenants]   `cmd:"" help:"List tenants with their settings."`
	Show      onAccount[ops.ShowTenant]    `cmd:"" help:"Show everything that was set of a tenant."`
	Add       onAccount[ops.AddTenant]     `cmd:"" help:"Register a tenant before its first reading."`
	Set       onAccount[ops.SetTenant]     `cmd:"" help:"Change settings of a tenant, without a restart."`
	Explain   onAccount[ops.ExplainTenant] `cmd:"" help:"Show where a tenant's readings are stored, since when, and why."`
	Retention struct {
		Explain onAccount[ops.ExplainRetention] `cmd:"" help:"Show which days of a device go when, and why; or which devices wait for a confirmation."`
		Confirm onAccount[ops.ConfirmRetention] `cmd:"" help:"Confirm that devices are kept for less because their tags have changed."`
	} `cmd:"" help:"Show how long readings are kept, and confirm that some are kept for less."`
	Pin      onAccount[ops.PinTenant]     `cmd:"" help:"Set a tenant's number of keys, or keep its keys as they are, whatever the balancer finds."`
	Move     onAccount[ops.MoveTenant]    `cmd:"" help:"Place a tenant in containers of its own, or in shared ones, from a day on."`
	Copy     command[ops.CopyConfig]      `cmd:"" help:"Copy chunks of a tenant to another account, and compare both."`
	Export   command[ops.ExportConfig]    `cmd:"" help:"Write a tenant's readings into files, a day each."`
	Suspend  onAccount[ops.SuspendTenant] `cmd:"" help:"Refuse queries of a tenant; its readings are stored as before."`
	Resume   onAccount[ops.ResumeTenant]  `cmd:"" help:"Answer queries of a suspended tenant again."`
	Cost     command[ops.CostConfig]      `cmd:"" help:"Show what a month costs, by tenant."`
	Erase    command[ops.EraseConfig]     `cmd:"" help:"Erase readings of a tenant or of one of its devices."`
	Erasures onAccount[ops.ListErasures]  `cmd:"" help:"List orders of erasure, and how far they are."`
	Token    struct {
		Add    onAccount[ops.AddToken]    `cmd:"" help:"Create a token and print it. It is shown only once."`
		List   onAccount[ops.ListTokens]  `cmd:"" help:"List tokens without their secrets."`
		Revoke onAccount[ops.RevokeToken] `cmd:"" help:"Revoke a token. Roles apply it within half a minute."`
	} `cmd:"" help:"Manage bearer tokens of tenants."`
}

// negative matches a value that begins with a minus: a time before now, such as -1d, or a number. No flag begins so.
var negative = regexp.MustCompile(`^-[0-9.]`)

// joinNegative joins each flag with the value that follows it where that begins with a minus: kong takes such a value
// for a flag.
func joinNegative(args []string) (out []string) {
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		last := len(out) - 1
		isFlag := last >= 0 && strings.HasPrefix(out[last], "--") && !strings.Contains(out[last], "=")
		if isFlag && negative.MatchString(arg) {
			out[last] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}

// ofFlags begins the names of the variables of flags.
const ofFlags = "BINNACLE_"

// ofServices matches the variables that Kubernetes sets in each pod for a service with a name like binnacle.
var ofServices = regexp.MustCompile(`(^|_)(SERVICE_(HOST|PORT(_.*)?)|PORT(_[0-9]+_(TCP|UDP)(_.*)?)?)$`)

// unknownVariables returns the variables that set nothing because no flag has their name, and those of flags; all
// without BINNACLE_.
func unknownVariables(of *kong.Application, environment []string) (unknown, known []string) {
	_ = kong.Visit(of, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			for _, name := range flag.Envs {
				known = append(known, strings.TrimPrefix(name, ofFlags))
			}
		}
		return next(nil)
	})
	for _, variable := range environment {
		name, isOurs := strings.CutPrefix(strings.Split(variable, "=")[0], ofFlags)
		if isOurs && !slices.Contains(known, name) && !ofServices.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	return unknown, known
}

// warnOfVariables warns of variables that set nothing for any command. command has the flags of one.
func warnOfVariables(command *kong.Application, environment []string, log *slog.Logger) {
	unknown, known := unknownVariables(command, environment)
	if len(unknown) > 0 {
		unknown, known = unknownVariables(allCommands(), environment)
	}
	for _, name := range unknown {
		said := []any{"variable", ofFlags + name}
		if near := nearest.Name(name, known); near != "" {
			said = append(said, "did_you_mean", ofFlags+near)
		}
		log.Warn("a variable sets nothing: no flag has its name", said...)
	}
}
