package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/kafka"
	"binnacle/internal/ops"
	"binnacle/internal/rollups"
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
	faults.Add(c.Account.Validate())
	faults.ingest(c.Ingest)
	faults.heads(c.Heads.HeadsTrust)
	faults.Check(c.Writes.LowAfter >= 0, "--low-priority-after %s is negative; 0 is none", c.Writes.LowAfter)
	faults.registry(c.Registry)
	faults.Check(c.Tenants.Retention >= 0, "--retention %s is negative; 0 keeps for ever", c.Tenants.Retention)
	faults.Add(c.Kafka.Validate())
	return faults.Err()
}

// Run stores readings from Kafka in the account until the context ends, and returns nil then.
func (cfg IngestConfig) Run(ctx context.Context, env ops.Env) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	return cfg.roles("ingest").run(ctx, env)
}

// roles returns the roles of settings that are valid.
func (cfg IngestConfig) roles(name string) roles {
	set, _ := cfg.Ingest.Set()
	need := &needs{topics: set, deadLetters: true, journals: cfg.Ingest.UseJournal == "on"}
	cfg.Tenants.Lead = ops.Lead(cfg.Ingest.Future)
	return roles{name: name, account: cfg.Account, kafka: cfg.Kafka, admin: cfg.Admin, check: cfg.Check, needs: need,
		tenants: cfg.Tenants, ingest: &cfg, messages: cfg.Ingest.Decode}
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
	faults.Add(c.Account.Validate())
	faults.heads(c.Heads.HeadsTrust)
	faults.query(c.Query)
	faults.access(c.Access)
	_, err := topics.Parse(c.Topics, c.DeadLetters)
	faults.Add(err, c.Messages.Check(), c.Kafka.Validate())
	return faults.Err()
}

// Run answers queries from the account and the heads of all ingesters until the context ends, and returns nil then.
func (cfg QueryRoleConfig) Run(ctx context.Context, env ops.Env) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	set, _ := topics.Parse(cfg.Topics, cfg.DeadLetters)
	return roles{name: "query", account: cfg.Account, kafka: cfg.Kafka, admin: cfg.Admin, check: cfg.Check,
		needs: &needs{topics: set}, heads: &cfg.Heads, query: &cfg.Query, access: cfg.Access,
		messages: cfg.Messages}.run(ctx, env)
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
	faults.policy(cfg.Policy)
	faults.azure(cfg.Azure, cfg.Ingest.Account)
	faults.Add(cfg.Rollups.Maker.Validate(), cfg.Ingest.Validate())
	if err := faults.Err(); err != nil {
		return err
	}
	return cfg.roles().run(ctx, env)
}

func (cfg ServeConfig) roles() roles {
	r := cfg.Ingest.roles("serve")
	r.query, r.access = &cfg.Query, cfg.Access
	if len(cfg.Others) > 0 {
		r.heads = &HeadsConfig{Names: cfg.Others, HeadsTrust: cfg.Ingest.Heads.HeadsTrust}
	}
	if cfg.Rollups.Rollups {
		r.rollups = &cfg.Rollups.Maker
		r.rollups.Hold = cmp.Or(r.rollups.Hold, cfg.Ingest.Ingest.Hold)
	}
	if cfg.Provision {
		r.provision = &ProvisionConfig{Account: r.account, Azure: cfg.Azure, Policy: cfg.Policy, Balance: cfg.Balance,
			Shape: cfg.Shape}
		r.provision.Balance.Future = max(cfg.Balance.Future, cfg.Ingest.Ingest.Future)
	}
	return r
}

// roles are the roles of a process on a Kafka cluster and an account; nil is none.
type roles struct {
	name    string
	account ops.AccountConfig
	kafka   kafka.Config
	admin   AdminConfig
	check   bool
	needs   *needs       // nil: the roles have nothing to do with Kafka
	heads   *HeadsConfig // nil: queries read the heads of this process alone
	tenants control.DirectoryConfig

	provision *ProvisionConfig
	ingest    *IngestConfig
	rollups   *rollups.Config
	query     *QueryConfig
	access    AccessConfig
	messages  decode.Options // of the dead letters that queries read
}

// run checks what the roles need, or runs them until the context ends, and returns nil then.
func (r roles) run(ctx context.Context, env ops.Env) error {
	if r.check {
		return roleCheck{r.account, r.kafka, r.needs, r.heads}.run(ctx, env)
	}
	if r.ingest != nil || r.query != nil {
		container, _ := os.ReadFile("/sys/fs/cgroup/memory.max") // "max", or no file: no limit
		r.limitMemory(string(container))
	}
	return run(ctx, env, func(ctx context.Context, p *process) error {
		o := &openRoles{process: p, roles: r}
		if err := o.listen(); err != nil {
			return err
		}
		p.start()
		if err := o.open(ctx); err != nil {
			return err
		}
		return o.announce()
	})
}

// openRoles is what the roles of a process have opened.
type openRoles struct {
	*process
	roles
	asked        store.Heads // heads that queries read; nil: those of this process alone
	adminAt, api listener
	headsAt      listener
	cluster      *kafka.Client
	opened       account
}

// listen opens the listeners, so that their faults show before anything runs.
func (o *openRoles) listen() (err error) {
	if o.heads != nil {
		if o.asked, err = o.findHeads(*o.heads); err != nil {
			return err
		}
	}
	if o.adminAt, err = o.openAdmin(o.admin); err != nil {
		return err
	}
	if o.ingest != nil {
		if o.headsAt, err = o.openHeads(o.ingest.Heads); err != nil {
			return err
		}
		o.dataDir = o.ingest.DataDir
	}
	if o.query != nil {
		o.api, err = o.openAPI(*o.query)
	}
	return err
}

// open waits until the account answers and provision has created its base, and adds the stages of the roles.
func (o *openRoles) open(ctx context.Context) error {
	client, err := o.connect(o.account)
	if err != nil {
		return err
	}
	return o.openOn(ctx, client)
}

// openOn adds the stages of the roles on an account.
func (o *openRoles) openOn(ctx context.Context, client *cosmos.Client) (err error) {
	if o.provision != nil {
		comes, err := ops.NewTenant(o.tenants.Retention)
		if err != nil {
			return err
		}
		if _, err := o.provisionAlways(ctx, client, *o.provision, comes); err != nil {
			return err
		}
	}
	if o.opened, err = o.waitForAccount(ctx, client, o.tenants); err != nil {
		return err
	}
	if o.needs != nil {
		if o.cluster, err = o.openKafka(o.kafka); err != nil {
			return err
		}
		if o.provision != nil && o.needs.journals {
			o.keepJournals(kafka.Journals{Sources: o.cluster.Sources(o.needs.topics), Keep: defaultJournalKeep},
				journalCheckEvery)
		}
	}
	if o.ingest != nil {
		if err := o.openIngest(); err != nil {
			return err
		}
	}
	if o.rollups != nil {
		if err := o.addRollups(*o.rollups, o.opened); err != nil {
			return err
		}
	}
	if o.query == nil {
		return nil
	}
	return o.newQuery(queryRole{cfg: *o.query, access: o.access, hosts: o.admin.Hosts, account: o.opened,
		heads: o.asked, from: deadLetterSource{o.cluster, o.needs.topics, o.messages}, api: o.api})
}

// openIngest adds the stage of the ingester, and serves its heads.
func (o *openRoles) openIngest() error {
	in := o.ingest.Ingest
	in.Register, in.Kafka = o.ingest.Register, o.cluster
	if o.dataDir != "" {
		in.SpillDir = filepath.Join(o.dataDir, "spill")
	}
	ingester, err := o.newIngest(ingestRole{cfg: in, writes: o.ingest.Writes, registry: o.ingest.Registry,
		account: o.opened, directory: o.opened.directory})
	if err != nil {
		return err
	}
	o.add("ingest", ingester.Run)
	if o.asked == nil {
		o.asked = ingester
	}
	return o.serveHeads(o.ingest.Heads, ingester, o.headsAt)
}

// announce prints which servers the roles use, and where they listen.
func (o *openRoles) announce() error {
	var b strings.Builder
	fmt.Fprintf(&b, "binnacle %s\n", o.name)
	if o.needs != nil {
		fmt.Fprintf(&b, "  kafka   %s  topics %s\n", strings.Join(o.kafka.Brokers, ","), o.needs.topics)
	}
	fmt.Fprintf(&b, "  cosmos  %s\n", o.account.Cosmos)
	if o.query != nil {
		fmt.Fprintf(&b, "  api     %s\n", o.query.url(o.api))
	}
	switch {
	case o.ingest != nil:
		fmt.Fprintf(&b, "  heads   %s\n", o.headsAt.addr())
	case o.heads != nil:
		fmt.Fprintf(&b, "  heads   %s\n", strings.Join(o.heads.Names, ","))
	}
	fmt.Fprintf(&b, "  admin   http://%s\n", o.adminAt.addr())
	_, err := o.Stdout.Write([]byte(b.String()))
	return err
}
