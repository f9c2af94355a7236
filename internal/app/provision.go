package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"binnacle/ingest"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/ops"
	"binnacle/internal/ops/erase"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// ProvisionConfig is what `binnacle provision` runs with.
type ProvisionConfig struct {
	Account ops.AccountConfig `kong:"embed,group='Cosmos DB'"`
	Azure   AzureConfig       `kong:"embed,group='Cosmos DB'"`
	Policy  PolicyConfig      `kong:"embed,group='Throughput'"`
	Journal JournalConfig     `kong:"embed,group='Journal'"`
	Balance BalanceConfig     `kong:"embed,group='Placement',set='balance=advise',set='balance_from=18h'"`
	Shape   ShapeConfig       `kong:"embed,group='Throughput'"`

	DryRun bool          `help:"Print the plan without applying it."`
	Export string        `help:"Print the database and its base containers as infrastructure code in arm, bicep or terraform, and exit." enum:"arm,bicep,terraform," default:"" placeholder:"LANGUAGE"`
	Once   bool          `help:"Apply the plan once and exit."`
	Every  time.Duration `help:"Time between two rounds of planning." default:"1m"`
	Admin  string        `help:"Address of the admin listener. Default: none." placeholder:"ADDRESS"`

	AdminTrust `kong:"embed"`
}

// PolicyConfig is the part of the policy of tiers that flags set.
type PolicyConfig struct {
	HotRUs  int  `name:"hot-rus" help:"Throughput with which the first containers are made, in RU/s. With --no-follow-load that of each current month's containers." default:"${hot_rus}"`
	Follow  bool `name:"follow-load" help:"Let the throughput of the current month's containers follow their load: up at once, down at the end of an hour, never beyond what would split physical partitions. New containers get the mode, manual or autoscale, that costs less for life." default:"true" negatable:""`
	ByRange bool `name:"autoscale-per-partition" help:"Whether the account bills autoscale by physical partition, as accounts made after 2024-09-25 do." default:"true" negatable:""`
	WarmRUs int  `name:"warm-rus" help:"Throughput of the previous month's containers, in RU/s." default:"${warm_rus}"`
	ColdRUs int  `name:"cold-rus" help:"Throughput of older containers, in RU/s." default:"${cold_rus}"`

	MaxRUs     int `name:"max-rus" help:"Most throughput of all containers of the account together, in RU/s; of autoscale the maximum counts. What is bought already stays. Default: ten times what the plan at the start wants, at least 10000." placeholder:"RU/S"`
	RollupsRUs int `name:"rollup-rus" help:"Autoscale maximum of a container of rollups, in RU/s. There is one for each container of chunks; 0 makes none." default:"2000"`

	ErasureRUs float64 `name:"erasure-rus" help:"Request units a second for the sweeps of erasures, at low priority." default:"400"`
	SweepRUs   int     `name:"sweep-rus" help:"Request units a second at most for deleting chunks of days that a shorter retention hides, at low priority; 0 leaves them until their time to live is over." default:"400"`
}

func (f *faults) policy(c PolicyConfig) {
	f.Check(c.ErasureRUs > 0, "--erasure-rus %g: must be positive", c.ErasureRUs)
}

func (c PolicyConfig) policy() provision.Policy {
	p := provision.DefaultPolicy()
	p.HotRUs, p.WarmRUs, p.ColdRUs, p.RollupsRUs, p.MaxRUs = c.HotRUs, c.WarmRUs, c.ColdRUs, c.RollupsRUs, c.MaxRUs
	p.PerPartition = c.ByRange
	if c.Follow {
		follow := provision.DefaultFollow()
		p.Follow = &follow
	}
	return p
}

// ShapeConfig sets which containers there are.
type ShapeConfig struct {
	Profile   string `help:"Whether containers share throughput. small: the database has throughput that few containers of a year share, for small fleets; only a database that was created with it can have that. large: containers of a month have their own, by age. auto: small at first, and large from a day on where that costs less. Default: as decided before, large at first." enum:"small,large,auto," default:"" placeholder:"PROFILE"`
	SharedRUs int    `name:"shared-rus" help:"Least throughput that containers share, in RU/s. It follows the busiest minute of the last day." default:"400"`

	Period string `help:"How long the containers of chunks and rollups are, from the next day on that can be decided: month, week, day, quarter or year. Default: as decided before, a month at first." enum:"month,week,day,quarter,year," default:"" placeholder:"PERIOD"`
}

func (c ShapeConfig) set(to *provision.Config, client *cosmos.Client) {
	to.Period, to.Profile = sharding.Period(c.Period), provision.Profile(c.Profile)
	to.Policy.SharedRUs = cmp.Or(c.SharedRUs, to.Policy.SharedRUs)
	to.Base, to.Heat = cosmos.Base(), heatlog.NewReader(client.Heat())
}

// capacityOf reports whether an account is serverless, by its container control, or as said where it can't be asked. It
// fails where the account is not as said: auto, serverless or provisioned.
func capacityOf(ctx context.Context, m manager, said string) (isServerless bool, err error) {
	state, err := m.ReadThroughput(ctx, store.ControlContainer)
	found := "provisioned"
	switch {
	case errors.Is(err, store.ErrNoContainer), errors.Is(err, store.ErrDenied):
		return said == "serverless", nil
	case err != nil:
		return false, err
	case state.Throughput.Serverless:
		found = "serverless"
	}
	if said != "" && said != "auto" && said != found {
		return false, fmt.Errorf("the account is %s, not as --capacity %s says", found, said)
	}
	return found == "serverless", nil
}

// ensure makes the database and its base containers unless they exist. It returns what it made that costs something.
func (c ShapeConfig) ensure(ctx context.Context, m manager) (made []string, err error) {
	before, err := m.List(ctx)
	if err != nil {
		return nil, err
	}
	if provision.Profile(c.Profile).Shares() {
		if err := m.EnsureShared(ctx, store.Throughput{RUs: c.SharedRUs}); err != nil {
			return nil, err
		}
		_, err := m.ReadThroughput(ctx, store.Database)
		if len(before) == 0 && err == nil {
			made = append(made, store.Database)
		}
	}
	for _, name := range store.BaseContainers() {
		if !slices.Contains(before, name) {
			made = append(made, name)
		}
	}
	return made, m.EnsureBase(ctx)
}

// AzureConfig sets the account in Azure Resource Manager, through which an identity creates containers.
type AzureConfig struct {
	Subscription  string `name:"azure-subscription" help:"Azure subscription of the account. With --identity, containers are created through Azure Resource Manager." placeholder:"ID"`
	ResourceGroup string `name:"azure-resource-group" help:"Azure resource group of the account." placeholder:"NAME"`
	Account       string `name:"azure-account" help:"Name of the account in Azure." placeholder:"NAME"`
}

func (f *faults) azure(c AzureConfig, a ops.AccountConfig) {
	given := c.Subscription != "" || c.ResourceGroup != "" || c.Account != ""
	f.Check(!given || c.Subscription != "" && c.ResourceGroup != "" && c.Account != "",
		"--azure-subscription, --azure-resource-group and --azure-account are given together, or none")
	f.Check(!given || a.Identity != "", "--azure-subscription needs --identity")
}

// manager creates containers and the base containers.
type manager interface {
	provision.Containers
	EnsureBase(ctx context.Context) error
	EnsureShared(ctx context.Context, t store.Throughput) error
}

// byKey is a manager with an account key.
type byKey struct {
	*cosmos.Containers
	*cosmos.Client
}

// manager returns the manager through Azure Resource Manager if that is set, else through the account itself.
func (c AzureConfig) manager(client *cosmos.Client, at ops.AccountConfig) (manager, error) {
	if c.Subscription == "" {
		return byKey{client.Containers(), client}, nil
	}
	credential, err := at.Credential()
	if err != nil {
		return nil, err
	}
	return cosmos.NewARM(cosmos.ARMConfig{
		Subscription: c.Subscription, ResourceGroup: c.ResourceGroup, Account: c.Account, Token: credential.Token,
	})
}

// Run prints and applies the plan: once, or until the context ends.
func (cfg ProvisionConfig) Run(ctx context.Context, env ops.Env) error {
	if cfg.Export != "" {
		text, err := cosmos.Export(cfg.Export)
		if err != nil {
			return err
		}
		_, err = env.Stdout.Write(text)
		return err
	}
	var faults faults
	faults.azure(cfg.Azure, cfg.Account)
	faults.journal(cfg.Journal)
	faults.policy(cfg.Policy)
	if err := faults.Err(); err != nil {
		return err
	}
	if cfg.DryRun || cfg.Once {
		return errors.Join(provisionOnce(ctx, cfg, env), journalOnce(ctx, cfg.Journal, cfg.DryRun, env))
	}
	return run(ctx, env, func(ctx context.Context, p *process) error {
		if cfg.Admin != "" {
			admin, err := p.openAdmin(AdminConfig{cfg.Admin, cfg.AdminTrust})
			if err != nil {
				return err
			}
			p.start()
			fmt.Fprintf(p.Stdout, "binnacle provision\n  admin   http://%s\n\n", admin.addr())
		}
		if err := p.provisionJournal(cfg.Journal, cfg.Every); err != nil {
			return err
		}
		client, err := p.connect(cfg.Account)
		if err != nil {
			return err
		}
		made, err := p.provisionAlways(ctx, client, cfg, nil)
		if err != nil {
			return err
		}
		steps, err := made.Once(ctx)
		if err != nil {
			p.Logger.Warn("the first round failed in part, will retry", "error", err) // the next one follows
		}
		return provision.Print(p.Stdout, steps)
	})
}

func provisionOnce(ctx context.Context, cfg ProvisionConfig, env ops.Env) error {
	client, err := cfg.Account.Connect(env.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	containers, err := cfg.Azure.manager(client, cfg.Account)
	if err != nil {
		return err
	}
	documents, made, err := base(ctx, cfg, client, containers)
	if err != nil {
		return err
	}
	isServerless, err := capacityOf(ctx, containers, cfg.Account.Capacity)
	if err != nil {
		return err
	}
	_, fresh := documents.(ops.NoDocuments)
	if fresh && provision.Profile(cfg.Shape.Profile).Shares() && !isServerless {
		made = []string{store.Database} // it will be
	}
	with := provision.Config{
		Containers: containers, Policy: cfg.Policy.policy(), Loads: containerLoads(client), Logger: env.Logger,
		Fresh: fresh,
		New:   made, Serverless: isServerless,
		Actions:   ops.ActionsOf(client, "", env.Logger),
		Directory: ops.DirectoryOf(client, control.DirectoryConfig{Documents: documents, Logger: env.Logger}),
		Now:       client.Clock().Now,
	}
	cfg.Shape.set(&with, client)
	p, err := provision.New(with)
	if err != nil {
		return err
	}
	shape, err := cfg.shape(ctx, p)
	if err != nil {
		return err
	}
	var steps []provision.Step
	if cfg.DryRun {
		steps, err = p.Plan(ctx)
	} else {
		steps, err = p.Once(ctx)
	}
	if err != nil && len(steps) == 0 {
		return err
	}
	shape.maxRUs, shape.capacity = p.MaxRUs(), p.Capacity()
	shape.print(env.Stdout)
	return errors.Join(err, provision.Print(env.Stdout, steps))
}

func containerLoads(c *cosmos.Client) *provision.ContainerLoads {
	reader := heatlog.NewReader(c.Heat())
	return &provision.ContainerLoads{Ranges: c, Heat: reader, Forecasts: reader}
}

// planShape is what a plan says of the account besides its steps.
type planShape struct {
	profiles *provision.Comparison // nil: no profile is chosen
	// period is the next period of containers, nil if it stays.
	period   *sharding.PeriodEpoch
	capacity string // provisioned or serverless
	maxRUs   int    // bounds all containers together
}

// shape returns what profiles cost, if one is chosen, and how long containers would be from a day on, if that would
// change.
func (c ProvisionConfig) shape(ctx context.Context, p *provision.Provisioner) (out planShape, err error) {
	if c.Shape.Profile != "" && p.Capacity() == "provisioned" {
		of, err := p.Compare(ctx)
		if err != nil {
			return out, err
		}
		out.profiles = &of
	}
	e, changes, err := p.NextPeriod(ctx)
	switch {
	case err != nil && !c.DryRun:
		err = nil // the round says it
	case changes:
		out.period = &e
	}
	return out, err
}

func (s planShape) print(w io.Writer) {
	if p := s.profiles; p != nil {
		fmt.Fprintf(w, "small: %d RU/s that all containers share, $%.2f a month; "+
			"large, as it is set: $%.2f a month at rest\nbreak-even: %.0f RU/s to share; "+
			"auto changes to large when 1.5 times the busiest minute of a day is above it\n\n",
			p.SharedRUs, p.Small.Most, p.Large.Least, p.BreakEvenRUs)
	}
	if e := s.period; e != nil {
		with := " with throughput of their own"
		switch {
		case s.capacity == "serverless":
			with = ""
		case e.Shared:
			with = " with shared throughput"
		}
		fmt.Fprintf(w, "containers of a %s%s from %s on; what is stored stays where it is\n\n", e.Period, with,
			time.UnixMilli(e.From.Start()).UTC().Format(time.DateOnly))
	}
	if s.capacity == "serverless" {
		fmt.Fprintf(w, "the account is serverless: $%.2f a million request units, in no total below\n\n",
			ru.ServerlessPerMillion)
		return
	}
	fmt.Fprintf(w, "at most %d RU/s for all containers together (--max-rus)\n\n", s.maxRUs)
}

// provisionFor adds the stages of provision, for the ingest of this process. It returns the directory as ingest is to
// use it: what ingest asks for is made at once. made is what of the account has just been made.
func (p *process) provisionFor(
	ctx context.Context, a account, cfg DevConfig, made []string,
) (ingest.Directory, error) {
	with := provision.Config{Containers: a.client.Containers(), Policy: provision.DevPolicy(), New: made,
		Poll: 30 * time.Second} // ingest in this process wakes it
	with.Policy.RollupsRUs = ops.RollupsRUs
	cfg.Shape.set(&with, a.client)
	if with.Profile == provision.Auto { // throughput follows the load, as it does on an account
		follow := provision.DefaultFollow()
		with.Policy.Follow, with.Loads = &follow, containerLoads(a.client)
	}
	var err error
	if with.Serverless, err = capacityOf(ctx, byKey{a.client.Containers(), a.client}, ""); err != nil {
		return nil, err
	}
	if with.Comes, err = ops.NewTenant(cfg.Tenants.Retention); err != nil {
		return nil, err
	}
	containers, err := p.addProvision(ctx, with, a, cfg.Balance, PolicyConfig{SweepRUs: 400, ErasureRUs: 400})
	if err != nil {
		return nil, err
	}
	return askingDirectory{a.directory, containers.Wake}, nil
}

// provisionAlways makes the base of the account, waiting until it answers, and adds the stages of provision.
func (p *process) provisionAlways(
	ctx context.Context, c *cosmos.Client, cfg ProvisionConfig, comes *tenant.Tenant,
) (*provision.Provisioner, error) {
	containers, err := cfg.Azure.manager(c, cfg.Account)
	if err != nil {
		return nil, err
	}
	var fresh []string
	if err := p.untilDone(ctx, "the account", func() error {
		made, err := cfg.Shape.ensure(ctx, containers)
		fresh = append(fresh, made...) // those made by a failed attempt as well
		return err
	}); err != nil {
		return nil, err
	}
	isServerless, err := capacityOf(ctx, containers, cfg.Account.Capacity)
	if err != nil {
		return nil, err
	}
	directory := ops.DirectoryOf(c, control.DirectoryConfig{Feed: c.Feed(), Logger: p.Logger, Lead: cfg.Balance.lead()})
	with := provision.Config{Containers: containers, Policy: cfg.Policy.policy(), Loads: containerLoads(c),
		Every: cfg.Every, New: fresh, Comes: comes, Serverless: isServerless}
	cfg.Shape.set(&with, c)
	return p.addProvision(ctx, with, account{c, directory}, cfg.Balance, cfg.Policy)
}

// addProvision adds the stages that make containers, look after what is stored, and decide epochs.
func (p *process) addProvision(ctx context.Context, with provision.Config, a account, balance BalanceConfig,
	sweeps PolicyConfig) (*provision.Provisioner, error) {
	with.Logger, with.Registerer = p.partLogger("provision"), p.metrics
	with.Directory, with.Now = a.directory, a.client.Clock().Now
	with.Actions, with.Lease = ops.ActionsOf(a.client, "provision", with.Logger), ops.ProvisionLease(a.client)
	made, err := provision.New(with)
	if err != nil {
		return nil, err
	}
	if err := made.SetPeriod(ctx); errors.Is(err, provision.ErrPeriod) { // before tenants come, which begin with it
		return nil, err // rounds try again where it fails for another reason
	}
	p.add("provision", made.Run)
	p.keepCatalogs(a.client, a.directory)
	p.keepTags(a.client, a.directory)
	p.sweepHiddenDays(a.client, a.directory, sweeps.SweepRUs)
	p.sweepErasures(a.client, a.directory, sweeps.ErasureRUs)
	p.addBalancer(balance, a.client, a.directory)
	return made, nil
}

// keepCatalogs adds the stages that merge the pages of catalogs, and thin heat.
func (p *process) keepCatalogs(c *cosmos.Client, directory *control.Directory) {
	p.add("heat thinning", heatlog.NewThinner(c.Heat(), c.Clock().Now, p.partLogger("heat")).
		Bill(c.Containers()).Run)
	p.watchPartitions(ops.HeatSource{Client: c, Snapshot: directory.Snapshot})
	p.add("catalogs", provision.NewCatalogMerger(provision.CatalogMergerConfig{
		Catalog: c.CatalogAt(cosmos.Priority{Low: true}), Logger: p.partLogger("catalogs"), Now: c.Clock().Now,
		Tenants: func(ctx context.Context) ([]string, error) {
			snapshot, err := directory.Refresh(ctx)
			if err != nil {
				return nil, err
			}
			var names []string
			for _, t := range snapshot.Tenants() {
				names = append(names, t.Name)
			}
			return names, nil
		},
	}).Run)
}

// keepTags adds the stage that keeps which devices are in classes of retention by tag.
func (p *process) keepTags(c *cosmos.Client, directory *control.Directory) {
	keeper := provision.TagKeeper{Snapshot: ops.DecidingSnapshots(directory), Tenants: tenant.NewTenants(c.Documents()),
		Now:      c.Clock().Now,
		Catalogs: catalogcache.New(catalogcache.Config{Catalog: c.CatalogAt(cosmos.Priority{Low: true})}),
		Every:    5 * time.Minute, Logger: p.partLogger("retention")}
	p.add("retention tags", keeper.Run)
}

// sweepHiddenDays adds the stage that deletes chunks of days that a shorter retention hides.
func (p *process) sweepHiddenDays(c *cosmos.Client, directory *control.Directory, rus int) {
	log := p.partLogger("sweep")
	p.add("sweep", provision.NewSweeper(provision.SweeperConfig{
		Chunks: c.Chunks().At(cosmos.Priority{Low: true}), Documents: c.Documents(),
		Snapshot: ops.DecidingSnapshots(directory), Actions: ops.ActionsOf(c, "provision", log),
		Lease: ops.ProvisionLease(c), RUs: float64(rus), Logger: log, Registerer: p.metrics, Now: c.Clock().Now,
	}).Run)
}

// sweepErasures adds the stage that sweeps what orders erase.
func (p *process) sweepErasures(c *cosmos.Client, directory *control.Directory, rus float64) {
	catalogs := provision.NewCatalogMerger(provision.CatalogMergerConfig{
		Catalog: c.CatalogAt(cosmos.Priority{Low: true}), Logger: p.partLogger("erasure"), Now: c.Clock().Now})
	sweeper := erase.NewSweeper(erase.Config{
		Chunks: c.Chunks().At(cosmos.Priority{Low: true}), Rollups: c.Rollups(), RUs: rus,
		Catalog: c.CatalogAt(cosmos.Priority{Low: true}), Purge: catalogs.Purge,
		Orders: ops.OrdersOf(c), Annotations: ops.AnnotationsOf(c, directory), Now: c.Clock().Now,
		By: ops.ProcessIdentity("provision"), Every: ops.FreshFor, Logger: p.partLogger("erasure"),
		Snapshot: ops.FreshSnapshots(directory),
	})
	p.add("erasure", func(ctx context.Context) error {
		return sweeper.Run(purpose.With(ctx, &purpose.Purpose{Kind: charges.Erase}))
	})
}

// base returns the control documents for the plan. Unless it is a dry run, it first creates what they need, and returns
// what that was.
func base(
	ctx context.Context, cfg ProvisionConfig, client *cosmos.Client, m manager,
) (documents store.Documents, made []string, err error) {
	if !cfg.DryRun {
		if made, err = cfg.Shape.ensure(ctx, m); err != nil {
			return nil, nil, fmt.Errorf("create the database in %s: %w", cfg.Account.Cosmos, err)
		}
		return client.Documents(), made, nil
	}
	containers, err := m.List(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list containers of %s: %w", cfg.Account.Cosmos, err)
	}
	if !slices.Contains(containers, store.ControlContainer) {
		return ops.NoDocuments{}, nil, nil
	}
	return client.Documents(), nil, nil
}

// askingDirectory wakes provision when ingest asks for a container.
type askingDirectory struct {
	*control.Directory
	wake func()
}

// AskMonth implements ingest.Directory.
func (a askingDirectory) AskMonth(ctx context.Context, container, tenant string) error {
	defer a.wake()
	return a.Directory.AskMonth(ctx, container, tenant)
}
