package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/ops/tenantcopy"
	"binnacle/internal/store"
)

// CopyConfig is what `binnacle tenant copy` works with.
type CopyConfig struct {
	Tenant string `arg:"" help:"Name of the tenant."`

	Account AccountConfig `kong:"embed,group='Cosmos DB'"`
	Target  AccountConfig `kong:"embed,prefix='to-',group='Target'"`

	Device string        `help:"Id of the device. Default: all devices of the tenant."`
	From   string        `help:"Start: a UTC day of event times such as 2026-11-20, or a time in it, such as -2d; days are whole. Default: the first of all." placeholder:"TIME"`
	To     string        `help:"End, exclusive; the day of a time such as now is included. Default: without end." placeholder:"TIME"`
	RUs    float64       `name:"rus" help:"RU/s that the copy may take, at the source and at the target." default:"400"`
	DryRun bool          `help:"Show what would be copied, and change nothing."`
	Follow bool          `help:"Go on with what the source stores, until an interrupt (Ctrl-C, SIGTERM) ends it with the comparison."`
	JSON   bool          `name:"json" help:"Print JSON."`
	Settle time.Duration `hidden:""` // after which the copy may end
}

// errCopyDiffers says that the end of a copy has found a difference.
var errCopyDiffers = errors.New("the target has other chunks than the source: another run does not change them")

// Run copies chunks of a tenant to another account, and compares both.
func (cfg CopyConfig) Run(ctx context.Context, env Env) error {
	covered, err := days(cfg.From, cfg.To, time.Now())
	if err != nil {
		return err
	}
	if cfg.RUs <= 0 {
		return fmt.Errorf("--rus %v is not above 0", cfg.RUs)
	}
	if cfg.Follow && cfg.DryRun {
		return errors.New("--follow and --dry-run exclude each other")
	}
	if cfg.Account.Cosmos == cfg.Target.Cosmos {
		return errors.New("--cosmos and --to-cosmos are one account: within an account \"tenant move\" does it")
	}
	from, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	defer from.Close()
	to, err := cfg.Target.Connect(env.Logger)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	defer to.Close()
	target, err := cfg.sides(ctx, from, to, env)
	if err != nil {
		return err
	}
	logged := time.Now()
	copier := tenantcopy.New(tenantcopy.Config{
		From: copySide(from, env), To: target, Tenant: cfg.Tenant, Device: cfg.Device, DryRun: cfg.DryRun,
		RUs: cfg.RUs, Days: covered, Settle: cfg.Settle, Logger: env.Logger,
		Progress: func(r tenantcopy.Result) {
			if now := time.Now(); now.Sub(logged) > 10*time.Second {
				logged = now
				env.Logger.Info("copying", "tenant", cfg.Tenant, "copied", r.Copied, "compared", r.Chunks, "bytes", r.Bytes)
			}
		},
	})
	var result tenantcopy.Result
	end := ctx.Done()
	if cfg.Follow {
		defer context.AfterFunc(ctx, func() {
			env.Logger.Info("the copy ends: all is compared once more; another interrupt ends it at once", "tenant", cfg.Tenant)
		})()
		ctx = context.WithoutCancel(ctx)
	}
	run := func() (err error) {
		if cfg.Follow {
			result, err = copier.Follow(ctx, end)
		} else {
			result, err = copier.Run(ctx)
		}
		if err == nil && !cfg.DryRun && !result.IsEqual() {
			err = errCopyDiffers
		}
		return err
	}
	if cfg.DryRun {
		err = run()
	} else {
		err = copyRecord{cfg, from, to, env.Logger}.do(ctx, run)
	}
	if err != nil && !errors.Is(err, errCopyDiffers) {
		return err
	}
	return errors.Join(err, printCopy(env.Stdout, cfg, result))
}

// sides returns the target, after a look at both accounts: a dry run goes to one without a database too.
func (cfg CopyConfig) sides(ctx context.Context, from, to *cosmos.Client, env Env) (tenantcopy.Side, error) {
	there, err := isProvisioned(ctx, from)
	if err != nil {
		return tenantcopy.Side{}, fmt.Errorf("the source: %w", err)
	}
	if !there {
		return tenantcopy.Side{}, fmt.Errorf("the source %s has no database of Binnacle", cfg.Account.Cosmos)
	}
	there, err = isProvisioned(ctx, to)
	if err != nil {
		return tenantcopy.Side{}, fmt.Errorf("the target: %w", err)
	}
	target := copySide(to, env)
	if there {
		return target, nil
	}
	const wanted = "the target has no database of Binnacle: \"binnacle provision\" makes it"
	if !cfg.DryRun {
		return target, errors.New(wanted)
	}
	env.Logger.Warn(wanted, "target", cfg.Target.Cosmos)
	target.Documents, target.OfTenants = NoDocuments{}, NoDocuments{}
	target.Directory = control.NewDirectory(control.DirectoryConfig{Documents: NoDocuments{}})
	return target, nil
}

func isProvisioned(ctx context.Context, client *cosmos.Client) (bool, error) {
	names, err := client.Containers().List(ctx)
	return slices.Contains(names, store.ControlContainer), err
}

func copySide(client *cosmos.Client, env Env) tenantcopy.Side {
	return tenantcopy.Side{
		Documents: client.Documents(), OfTenants: client.TenantDocuments(), Orders: OrdersOf(client),
		Directory: DirectoryOf(client, control.DirectoryConfig{Feed: client.Feed(), Logger: env.Logger}),
		Catalog:   client.CatalogAt(cosmos.Priority{Low: true}), Chunks: client.Chunks().At(cosmos.Priority{Low: true}),
		Now: client.Clock().Now,
	}
}

// copyRecord has a copy among the actions of both accounts.
type copyRecord struct {
	CopyConfig
	from, to *cosmos.Client
	log      *slog.Logger
}

// do records a copy. It refuses a target that is the source by another address.
func (c copyRecord) do(ctx context.Context, run func() error) error {
	action := func(object string) control.Action {
		return control.Action{Verb: "tenant copy", Tenant: c.Tenant, Object: object,
			Detail: map[string]string{"device": c.Device, "from": c.From, "to": c.To}}
	}
	return ActionsOf(c.from, "", c.log).Do(ctx, action("to "+c.Target.Cosmos), func(a *control.Action) error {
		_, isSame, err := c.to.Documents().Read(ctx, control.KindAction, a.ID)
		if err != nil {
			return fmt.Errorf("the target: %w", err)
		}
		if isSame {
			return errors.New("--to-cosmos is another address of the source: within an account \"tenant move\" does it")
		}
		return ActionsOf(c.to, "", c.log).Do(ctx, action("from "+c.Account.Cosmos),
			func(*control.Action) error { return run() })
	})
}

// printCopy prints what a copy has done, and how both sides compare.
func printCopy(out io.Writer, cfg CopyConfig, r tenantcopy.Result) error {
	if cfg.JSON {
		return json.NewEncoder(out).Encode(struct {
			tenantcopy.Result
			Equal bool `json:"equal"`
		}{r, r.IsEqual()})
	}
	var lines []string
	line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if cfg.DryRun {
		line("would be copied: %d of %d chunks, %d bytes; %d are left out because a retention hides them", r.Copied, r.Chunks,
			r.Bytes, r.Expiring)
		if len(r.Missing) > 0 {
			line("containers that the target lacks: %s", strings.Join(r.Missing, ", "))
		}
	} else {
		line("copied: %d chunks and %d replaced, %d bytes; %d left out because a retention hides them; %d devices in the "+
			"catalog; %.0f RU", r.Copied, r.Replaced, r.Bytes, r.Expiring, r.Devices, r.RUs)
		line("compared: %d chains, %d chunks (%d without rows), %d rows, offsets to %d in sum", r.Chains, r.Chunks, r.Erased,
			r.Rows, r.Through)
		line("digest of the source: %s", r.Digest)
		line("digest of the target: %s", r.ToDigest)
		if r.OnlyTo > 0 {
			line("the target has %d chunks that the source keeps no longer", r.OnlyTo)
		}
		for _, d := range r.Different {
			line("different: %s", d)
		}
		if r.IsEqual() {
			line("equal")
		}
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// NoDocuments are the control documents of an account that Binnacle has never seen: a dry run makes not even their
// container.
type NoDocuments struct{ store.Documents }

// List implements store.Documents.
func (NoDocuments) List(context.Context, string) ([]store.Document, error) { return nil, nil }

// Read implements store.Documents.
func (NoDocuments) Read(context.Context, string, string) (store.Document, bool, error) {
	return store.Document{}, false, nil
}
