package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/kafka"
	"binnacle/internal/ops"
	"binnacle/internal/schemaregistry"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
)

// IngestConfig sets `binnacle ingest`.
type IngestConfig struct {
	Account  ops.AccountConfig       `kong:"embed,group='Cosmos DB'"`
	Kafka    kafka.Config            `kong:"embed,group='Kafka'"`
	Ingest   ingest.Config           `kong:"embed,group='Ingest'"`
	Tenants  control.DirectoryConfig `kong:"embed,group='Ingest'"`
	Writes   WritesConfig            `kong:"embed,group='Ingest'"`
	Registry schemaregistry.Config   `kong:"embed,group='Ingest'"`
	Heads    HeadsListener           `kong:"embed,group='Heads'"`
	Admin    AdminConfig             `kong:"embed"`

	DataDir  string `help:"Directory of the spill file, which takes rows of open bins beyond --memory-mb. It is a cache and may be lost. What the process was charged is kept there too, until it is stored. Default: none; bins are stored early instead." placeholder:"DIR"`
	Register bool   `help:"Register a tenant with its first reading, with the retention of --retention. Default: readings of unknown tenants become dead letters."`
	Check    bool   `help:"Check that everything the role needs exists, and exit."`
}

// Validate reports every fault that can be seen before anything is opened.
func (c IngestConfig) Validate() error {
	var faults faults
	faults.account(c.Account)
	faults.ingest(c.Ingest)
	faults.heads(c.Heads.HeadsTrust)
	faults.check(c.Writes.LowAfter >= 0, "--low-priority-after %s is negative; 0 is none", c.Writes.LowAfter)
	faults.registry(c.Registry)
	faults.check(c.Tenants.Retention >= 0, "--retention %s is negative; 0 keeps for ever", c.Tenants.Retention)
	return errors.Join(append(faults, c.Kafka.Validate())...)
}

// Run stores readings from Kafka in the account until the context ends, and returns nil then.
func (cfg IngestConfig) Run(ctx context.Context, env ops.Env) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	need, err := cfg.needs()
	if err != nil {
		return err
	}
	if cfg.Check {
		return roleCheck{account: cfg.Account, kafka: cfg.Kafka, needs: &need}.run(ctx, env)
	}
	return run(ctx, env, func(ctx context.Context, p *process) error {
		admin, err := p.openAdmin(cfg.Admin)
		if err != nil {
			return err
		}
		heads, err := p.openHeads(cfg.Heads)
		if err != nil {
			return err
		}
		p.start()
		p.dataDir = cfg.DataDir
		client, err := p.connect(cfg.Account)
		if err != nil {
			return err
		}
		g, err := p.openBackends(ctx, client, cfg.Kafka, cfg.directory())
		if err != nil {
			return err
		}
		in, err := p.ingestFrom(cfg, g)
		if err != nil {
			return err
		}
		if err := p.serveHeads(cfg.Heads, in, heads); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "binnacle ingest\n  kafka   %s  topics %s\n  cosmos  %s\n  heads   %s\n  admin   http://%s\n",
			strings.Join(cfg.Kafka.Brokers, ","), need.topics, cfg.Account.Cosmos, heads.addr(), admin.addr())
		return nil
	})
}

func (c IngestConfig) needs() (needs, error) {
	set, err := c.Ingest.Set()
	return needs{topics: set, deadLetters: true, journals: c.Ingest.UseJournal == "on"}, err
}

// backends are the servers that the roles of a process use.
type backends struct {
	account
	cluster *kafka.Client
}

// openBackends waits until the account answers and provision has created its base, and connects to the cluster.
func (p *process) openBackends(
	ctx context.Context, client *cosmos.Client, cluster kafka.Config, tenants control.DirectoryConfig,
) (g backends, err error) {
	if g.account, err = p.waitForAccount(ctx, client, tenants); err != nil {
		return g, err
	}
	g.cluster, err = p.openKafka(cluster)
	return g, err
}

func (c IngestConfig) directory() control.DirectoryConfig {
	tenants := c.Tenants
	tenants.Lead = ops.Lead(c.Ingest.Future)
	return tenants
}

func (p *process) ingestFrom(cfg IngestConfig, g backends) (*ingest.Ingester, error) {
	in := cfg.Ingest
	in.Register, in.Kafka = cfg.Register, g.cluster
	if cfg.DataDir != "" {
		in.SpillDir = filepath.Join(cfg.DataDir, "spill")
	}
	ingester, err := p.newIngest(ingestRole{cfg: in, writes: cfg.Writes, registry: cfg.Registry, account: g.account,
		directory: g.account.directory})
	if err != nil {
		return nil, err
	}
	p.add("ingest", ingester.Run)
	return ingester, nil
}

// QueryRoleConfig sets `binnacle query`.
type QueryRoleConfig struct {
	Account ops.AccountConfig `kong:"embed,group='Cosmos DB'"`
	Kafka   kafka.Config      `kong:"embed,group='Kafka'"`
	Topics  []string          `name:"topic" sep:"none" help:"Topics with readings, as --topic of the ingesters. Their log ends decide whether an answer is complete. Default: telemetry and telemetry.backfill." default:"telemetry,telemetry.backfill" placeholder:"TOPIC"`

	DeadLetters string         `help:"Topic of the dead letters. Default: the name of the first topic with .dlq." placeholder:"TOPIC"`
	Messages    decode.Options `kong:"embed,group='Messages (set these as for the ingesters; dead letters get their tenant from them)'"`

	Heads  HeadsConfig  `kong:"embed,group='Heads'"`
	Query  QueryConfig  `kong:"embed,group='Queries'"`
	Access AccessConfig `kong:"embed,group='Authentication'"`
	Admin  AdminConfig  `kong:"embed"`

	Check bool `help:"Check that everything the role needs exists, and exit."`
}

// Validate reports every fault that can be seen before anything is opened.
func (c QueryRoleConfig) Validate() error {
	var faults faults
	faults.account(c.Account)
	faults.heads(c.Heads.HeadsTrust)
	faults.query(c.Query)
	faults.access(c.Access)
	_, err := c.set()
	return errors.Join(append(faults, err, c.Messages.Check(), c.Kafka.Validate())...)
}

func (c QueryRoleConfig) set() (topics.Set, error) { return topics.Parse(c.Topics, c.DeadLetters) }

// Run answers queries from the account and the heads of all ingesters until the context ends, and returns nil then.
func (cfg QueryRoleConfig) Run(ctx context.Context, env ops.Env) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	set, err := cfg.set()
	if err != nil {
		return err
	}
	if cfg.Check {
		return roleCheck{cfg.Account, cfg.Kafka, &needs{topics: set}, &cfg.Heads}.run(ctx, env)
	}
	return run(ctx, env, func(ctx context.Context, p *process) error {
		heads, err := p.findHeads(cfg.Heads)
		if err != nil {
			return err
		}
		admin, err := p.openAdmin(cfg.Admin)
		if err != nil {
			return err
		}
		api, err := p.openAPI(cfg.Query)
		if err != nil {
			return err
		}
		p.start()
		client, err := p.connect(cfg.Account)
		if err != nil {
			return err
		}
		g, err := p.openBackends(ctx, client, cfg.Kafka, control.DirectoryConfig{})
		if err != nil {
			return err
		}
		err = p.newQuery(queryRole{cfg: cfg.Query, access: cfg.Access, hosts: cfg.Admin.Hosts, account: g.account,
			heads: heads, from: deadLetterSource{g.cluster, set, cfg.Messages}, api: api})
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "binnacle query\n  api     %s\n  heads   %s\n  cosmos  %s\n  admin   http://%s\n",
			cfg.Query.url(api), strings.Join(cfg.Heads.Names, ","), cfg.Account.Cosmos, admin.addr())
		return nil
	})
}

// ServeConfig sets `binnacle serve`: all roles in one process on real servers.
type ServeConfig struct {
	Ingest    IngestConfig  `kong:"embed"`
	Query     QueryConfig   `kong:"embed,group='Queries'"`
	Access    AccessConfig  `kong:"embed,group='Authentication'"`
	Azure     AzureConfig   `kong:"embed,group='Cosmos DB'"`
	Provision bool          `help:"Create containers ahead of time and set their throughput by age. One of several processes should." default:"true" negatable:""`
	Policy    PolicyConfig  `kong:"embed,group='Throughput'"`
	Rollups   RollupsConfig `kong:"embed,group='Rollups'"`
	Balance   BalanceConfig `kong:"embed,group='Placement',set='balance=advise',set='balance_from=18h'"`
	Shape     ShapeConfig   `kong:"embed,group='Throughput'"`
	Others    []string      `name:"heads" help:"All ingesters of the group, this one included, as --heads of binnacle query. Default: this one alone." placeholder:"NAME"`
}

// Run runs all roles in one process until the context ends, and returns nil then.
func (cfg ServeConfig) Run(ctx context.Context, env ops.Env) error {
	var faults faults
	faults.query(cfg.Query)
	faults.access(cfg.Access)
	faults.azure(cfg.Azure, cfg.Ingest.Account)
	if err := errors.Join(append(faults, cfg.Rollups.Maker.Validate(), cfg.Ingest.Validate())...); err != nil {
		return err
	}
	need, err := cfg.Ingest.needs()
	if err != nil {
		return err
	}
	if in := cfg.Ingest; in.Check {
		return roleCheck{in.Account, in.Kafka, &need, cfg.others()}.run(ctx, env)
	}
	return run(ctx, env, func(ctx context.Context, p *process) error { return p.serveAll(ctx, cfg, need.topics) })
}

// others returns how the ingesters are found, or nil if this is the only one.
func (c ServeConfig) others() *HeadsConfig {
	if len(c.Others) == 0 {
		return nil
	}
	return &HeadsConfig{Names: c.Others, HeadsTrust: c.Ingest.Heads.HeadsTrust}
}

func (p *process) serveAll(ctx context.Context, cfg ServeConfig, set topics.Set) error {
	in := cfg.Ingest
	var others store.Heads
	if c := cfg.others(); c != nil {
		var err error
		if others, err = p.findHeads(*c); err != nil {
			return err
		}
	}
	admin, err := p.openAdmin(in.Admin)
	if err != nil {
		return err
	}
	heads, err := p.openHeads(in.Heads)
	if err != nil {
		return err
	}
	api, err := p.openAPI(cfg.Query)
	if err != nil {
		return err
	}
	p.start()
	p.dataDir = in.DataDir
	client, err := p.connect(in.Account)
	if err != nil {
		return err
	}
	if cfg.Provision {
		made := ProvisionConfig{Account: in.Account, Azure: cfg.Azure, Policy: cfg.Policy, Balance: cfg.Balance,
			Shape: cfg.Shape}
		made.Balance.Future = max(made.Balance.Future, in.Ingest.Future)
		comes, err := ops.NewTenant(in.Tenants.Retention)
		if err != nil {
			return err
		}
		if _, err := p.provisionAlways(ctx, client, made, comes); err != nil {
			return err
		}
	}
	g, err := p.openBackends(ctx, client, in.Kafka, in.directory())
	if err != nil {
		return err
	}
	if cfg.Provision && in.Ingest.UseJournal == "on" {
		p.keepJournals(kafka.Journals{Sources: g.cluster.Sources(set), Keep: defaultJournalKeep}, journalCheckEvery)
	}
	ingester, err := p.ingestFrom(in, g)
	if err != nil {
		return err
	}
	if err := p.serveHeads(in.Heads, ingester, heads); err != nil {
		return err
	}
	if others == nil {
		others = ingester
	}
	if cfg.Rollups.Rollups {
		if err := p.addRollups(cfg.Rollups.Maker, in.Ingest.Hold, g.account); err != nil {
			return err
		}
	}
	err = p.newQuery(queryRole{cfg: cfg.Query, access: cfg.Access, hosts: in.Admin.Hosts, account: g.account,
		heads: others, from: deadLetterSource{g.cluster, set, in.Ingest.Decode}, api: api})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "binnacle serve\n  kafka   %s  topics %s\n  cosmos  %s\n  api     %s\n  heads   %s\n  admin   "+
		"http://%s\n",
		strings.Join(in.Kafka.Brokers, ","), set, in.Account.Cosmos, cfg.Query.url(api), heads.addr(),
		admin.addr())
	return nil
}
