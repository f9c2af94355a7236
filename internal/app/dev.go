package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"binnacle/ingest"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/ops"
	"binnacle/internal/schemaregistry"
	"binnacle/internal/stream/topics"
	"binnacle/query/console"
	"binnacle/query/httpapi"
)

// DevConfig sets `binnacle dev`: the settings of all roles, some with other defaults.
type DevConfig struct {
	DataDir string `help:"Data directory, with kafka/ and cosmos/ in it." default:"./binnacle-data"`

	Admin    AdminConfig             `kong:"embed"`
	Query    QueryConfig             `kong:"embed,group='Queries'"`
	Access   AccessConfig            `kong:"embed,group='Authentication',set='trusted_proxies=127.0.0.0/8,::1'"`
	Ingest   ingest.Config           `kong:"embed,group='Ingest',set='hold=5m'"`
	Writes   WritesConfig            `kong:"embed,group='Ingest'"`
	Registry schemaregistry.Config   `kong:"embed,group='Ingest'"`
	Tenants  control.DirectoryConfig `kong:"embed,group='Ingest'"`
	Rollups  RollupsConfig           `kong:"embed,group='Rollups'"`
	Balance  BalanceConfig           `kong:"embed,group='Placement',set='balance=on',set='balance_from=0s'"`
	Shape    ShapeConfig             `kong:"embed,group='Placement'"`
	Fleet    fleet.Config            `kong:"embed,group='Simulated fleet'"`
	Broker   broker.Config           `kong:"embed,group='Embedded Kafka'"`
	Listener EmulatorListener        `kong:"embed,group='Embedded Cosmos DB'"`
	Emulator emulator.Config         `kong:"embed,group='Embedded Cosmos DB'"`
}

// Validate reports every fault that can be seen before anything is opened. Errors name the flags of `binnacle dev`.
func (c DevConfig) Validate() error {
	var faults faults
	faults.Check(c.DataDir != "", "--data-dir is empty")
	faults.Check(c.Broker.Partitions >= 1, "--partitions %d: a topic has at least 1", c.Broker.Partitions)
	faults.Check(c.Broker.RetentionBytes >= 0, "--kafka-mb %d is negative", c.Broker.RetentionBytes>>20)
	faults.Check(c.Fleet.Devices >= 0, "--fleet %d is negative", c.Fleet.Devices)
	faults.Check(c.Fleet.Interval >= time.Millisecond, "--fleet-interval %s is below 1ms", c.Fleet.Interval)
	faults.ingest(c.Ingest)
	if set, err := c.Ingest.Set(); err == nil {
		faults.Check(c.Fleet.Devices <= 0 || len(set.Required()) > 0,
			"--fleet %d publishes to the first topic that --topic names, and it names none; --fleet 0 is no fleet",
			c.Fleet.Devices)
	}
	faults.Check(c.Writes.LowAfter >= 0, "--low-priority-after %s is negative; 0 is none", c.Writes.LowAfter)
	faults.registry(c.Registry)
	faults.Check(c.Tenants.Retention >= 0, "--retention %s is negative; 0 keeps for ever", c.Tenants.Retention)
	faults.Check(c.Tenants.MaxMonths >= 1, "--max-months %d: a tenant needs at least 1", c.Tenants.MaxMonths)
	faults.query(c.Query)
	faults.access(c.Access)
	faults.emulator(c.Emulator)
	faults.Add(c.Rollups.Maker.Validate())
	return faults.Err()
}

// dev runs everything in one process.
type dev struct {
	*process
	cfg       DevConfig
	topics    topics.Set
	broker    *broker.Broker
	emulator  *emulator.Server
	cosmos    listener
	api       listener
	admin     listener
	announced atomic.Bool // stdout says where everything is
}

// Run runs everything in one process until the context ends, and returns nil then.
func (cfg DevConfig) Run(ctx context.Context, env ops.Env) error {
	cfg.Broker.DataDir, cfg.Emulator.DataDir = filepath.Join(cfg.DataDir, "kafka"), filepath.Join(cfg.DataDir, "cosmos")
	if err := cfg.Validate(); err != nil {
		return err
	}
	set, err := cfg.Ingest.Set()
	if err != nil {
		return err
	}
	for _, name := range set.Required() {
		cfg.Broker.Topics = append(cfg.Broker.Topics, name, kafka.JournalOf(name))
	}
	cfg.Broker.Topics = append(cfg.Broker.Topics, set.DeadLetters())
	cfg.Broker.Groups = []string{cfg.Ingest.Group}
	return run(ctx, env, func(ctx context.Context, p *process) error {
		d := &dev{process: p, cfg: cfg, topics: set}
		if err := d.open(ctx); err != nil {
			return err
		}
		p.start()
		return d.compose(ctx)
	})
}

func (d *dev) open(ctx context.Context) (err error) {
	if err := writable(d.cfg.DataDir); err != nil {
		return err
	}
	if d.broker, err = d.openBroker(d.cfg.Broker); err != nil {
		return err
	}
	if d.emulator, err = d.openEmulator(d.cfg.Emulator); err != nil {
		return err
	}
	if d.cosmos, err = d.listen("the embedded Cosmos DB", "--cosmos", d.cfg.Listener.Cosmos); err != nil {
		return err
	}
	d.cosmos.serve(d.cfg.Admin.Hosts.Guard(d.emulator))
	if d.api, err = d.openAPI(d.cfg.Query); err != nil {
		return err
	}
	d.readyWhen(func() error {
		if !d.announced.Load() {
			return errors.New("starting")
		}
		return nil
	})
	if d.admin, err = d.openAdmin(d.cfg.Admin); err != nil {
		return err
	}
	return ctx.Err()
}

// publishing returns where devices publish to the embedded broker; nil where topics have no names but patterns.
func (d *dev) publishing() *httpapi.Publishing {
	named := d.topics.Required()
	if len(named) == 0 {
		return nil
	}
	return &httpapi.Publishing{Kafka: d.broker.Addr(), Topic: named[0]}
}

func (d *dev) compose(ctx context.Context) error {
	d.dataDir = d.cfg.DataDir
	client, err := d.connectTo(d.emulator)
	if err != nil {
		return err
	}
	cfg := d.cfg.Tenants
	d.cfg.Balance.Future = max(d.cfg.Balance.Future, d.cfg.Ingest.Future)
	cfg.Lead = ops.Lead(d.cfg.Ingest.Future)
	var made []string
	a, err := d.openAccount(ctx, client, cfg,
		func(ctx context.Context) (err error) {
			made, err = d.cfg.Shape.ensure(ctx, byKey{client.Containers(), client})
			return err
		})
	if err != nil {
		return err
	}
	d.start()
	asked, err := d.provisionFor(ctx, a, d.cfg, made)
	if err != nil {
		return err
	}
	in := d.cfg.Ingest
	if in.Kafka, err = d.openKafka(kafka.Config{Brokers: []string{d.broker.Addr()},
		MaxFetchedBytes: in.MemoryBytes / 4}); err != nil {
		return err
	}
	in.Register, in.SpillDir = true, filepath.Join(d.cfg.DataDir, "spill")
	in.Past = cmp.Or(in.Past, -1) // the user of dev is the operator
	ingester, err := d.newIngest(ingestRole{cfg: in, writes: d.cfg.Writes, registry: d.cfg.Registry, account: a,
		directory: asked, refusals: NewRefusals(d.Logger, "curl http://"+d.admin.addr()+"/api/v1/rejected")})
	if err != nil {
		return err
	}
	d.cfg.Access.ProxiesMayWrite = true
	err = d.newQuery(queryRole{cfg: d.cfg.Query, access: d.cfg.Access, hosts: d.cfg.Admin.Hosts, account: a,
		heads: ingester, from: deadLetterSource{in.Kafka, d.topics, in.Decode}, api: d.api, publish: d.publishing(),
		operators: "http://" + d.admin.addr() + console.OperatorsPath})
	if err != nil {
		return err
	}
	if d.topics.Grows() && in.UseJournal == "on" { // the broker makes the journals of topics that must exist
		d.keepJournals(kafka.Journals{Sources: in.Kafka.Sources(d.topics), Keep: defaultJournalKeep}, journalCheckEvery)
	}
	d.add("ingest", ingester.Run)
	if maker := d.cfg.Rollups.Maker; d.cfg.Rollups.Rollups {
		maker.Hold = cmp.Or(maker.Hold, in.Hold)
		if err := d.addRollups(maker, a); err != nil {
			return err
		}
	}
	d.start()
	d.announce()
	if d.cfg.Fleet.Devices > 0 {
		trucks := d.cfg.Fleet
		trucks.Topic = in.Kafka.Topic(d.topics.Required()[0])
		d.addFleet(trucks)
	}
	return nil
}

// announce prints all addresses and what to try first. Every line that begins with curl is a command that works.
func (d *dev) announce() {
	api := d.cfg.Query.url(d.api)
	tenant, newest := cmp.Or(d.cfg.Ingest.Decode.Tenant, "acme"), "from=0&order=desc&limit=5"
	if d.cfg.Fleet.Devices > 0 {
		tenant = d.cfg.Fleet.Tenants[0]
		newest = "device=truck-0000&metric=velocity&from=-1m&order=desc&limit=5"
	}
	curl := func(path string) string { return fmt.Sprintf("curl -H 'X-Scope-OrgID: %s' '%s%s'", tenant, api, path) }
	var b strings.Builder
	fmt.Fprintf(&b, "binnacle dev\n")
	fmt.Fprintf(&b, "  kafka   %s  topics %s and %s, no login\n", d.broker.Addr(),
		d.topics.Main(), d.topics.DeadLetters())
	fmt.Fprintf(&b, "  cosmos  http://%s/  key %s  page /_emulator\n", d.cosmos.addr(), emulator.Key)
	fmt.Fprintf(&b, "  page    %s/#tenant=%s\n", api, tenant)
	fmt.Fprintf(&b, "  api     %s  tenant in the header X-Scope-OrgID\n", api)
	fmt.Fprintf(&b, "  admin   http://%s  /operators /heat /metrics /healthz /readyz /debug/pprof/\n", d.admin.addr())
	fmt.Fprintf(&b, "  data    %s\n", d.cfg.DataDir)
	if d.cfg.Fleet.Devices > 0 {
		fmt.Fprintf(&b, "  fleet   %s\n", fleetLine(d.cfg.Fleet))
	}
	fmt.Fprintf(&b, "\nTry:\n")
	fmt.Fprintln(&b, curl("/api/v1/devices"))
	fmt.Fprintln(&b, curl("/api/v1/metrics"))
	fmt.Fprintln(&b, curl("/api/v1/readings?"+newest))
	fmt.Fprintln(&b, curl("/api/v1/readings?from=-10s&format=csv"))
	fmt.Fprintln(&b, curl("/api/v1/rejected"))
	fmt.Fprintf(&b, "\nCtrl-C stops it; what was published stays in %s.\n", d.cfg.DataDir)
	fmt.Fprint(d.Stdout, b.String())
	d.announced.Store(true)
}
