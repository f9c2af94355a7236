// Package app builds the roles from their configuration and runs them: it is the one place that knows which
// implementation serves which contract. It has no rules of its own.
//
// A role is a file here: the struct of its settings, and methods of process that open what it needs and add its
// stages. A subcommand is one role or several of them: Dev is all, with the embedded servers.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/ops"
	"binnacle/internal/provision"
	"binnacle/internal/retry"
	"binnacle/internal/text/duration"
	"binnacle/query/console"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// process is a subcommand that runs until it is stopped: the stages of its roles, and what they have opened.
type process struct {
	ops.Env
	metrics *prometheus.Registry
	// adminMux handles what the admin listener serves to operators only; roles add to it.
	adminMux *http.ServeMux
	page     *console.Handler // nil until a role serves the page of operators
	life     *lifecycle
	heat     *heatlog.Collector // counts requests of the process's client
	charges  *charges.Counter   // counts charges of the same client
	dataDir  string             // the process's; empty: none
	began    time.Time          // time of the first stage
	added    []stage
	opened   []func() // gives back what was opened

	mu       sync.Mutex     // guards below
	notReady []func() error // each says why the process is not ready yet
}

// run builds a process and runs it until the context ends, and returns nil then, or until a stage fails. build opens
// directories and addresses first, so that their faults show before anything runs.
func run(ctx context.Context, env ops.Env, build func(ctx context.Context, p *process) error) error {
	p := newProcess(env)
	defer p.close()
	defer p.life.stop()
	err := build(ctx, p)
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		err = nil // it was stopped while it started
	} else if err == nil {
		p.start()
		err = p.life.wait(ctx)
	}
	if !p.began.IsZero() {
		p.life.stop()
		p.Logger.Info("binnacle stopped", "command", p.Command, "reason", cmp.Or(err, context.Cause(ctx)),
			"uptime", time.Since(p.began).Round(time.Millisecond))
	}
	return err
}

func newProcess(env ops.Env) *process {
	p := &process{Env: env, metrics: prometheus.NewRegistry(), adminMux: http.NewServeMux(),
		life: &lifecycle{log: env.Logger, failed: make(chan error, 1)}}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

func (p *process) partLogger(name string) *slog.Logger { return p.Logger.With("part", name) }

// add adds a stage; start begins it.
func (p *process) add(name string, run func(context.Context) error) {
	p.added = append(p.added, stage{name, run})
}

// start begins the stages that were added, in that order. It may be called again after further ones.
func (p *process) start() {
	if p.began.IsZero() {
		p.began = time.Now()
		v := ops.ThisVersion()
		p.Logger.Info("binnacle starts", "command", p.Command, "version", v.Release, "revision", v.Revision, "go", v.Go)
	}
	for _, s := range p.added {
		p.life.start(s)
	}
	p.added = nil
}

// onClose adds a function that closes what was opened. They run after all stages have ended, the last first.
func (p *process) onClose(what string, close func() error) {
	p.opened = append(p.opened, func() {
		if err := close(); err != nil {
			p.Logger.Error("cannot close cleanly", "what", what, "error", err)
		}
	})
}

func (p *process) close() {
	for i := len(p.opened) - 1; i >= 0; i-- {
		p.opened[i]()
	}
}

// readyWhen adds a condition of readiness: why returns what is missing, or nil.
func (p *process) readyWhen(why func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notReady = append(p.notReady, why)
}

func (p *process) Ready() error {
	p.mu.Lock()
	waits := slices.Clone(p.notReady)
	p.mu.Unlock()
	for _, why := range waits {
		if err := why(); err != nil {
			return err
		}
	}
	return nil
}

// startRetries are the pauses between attempts to reach a server at the start.
var startRetries = retry.Policy{First: 100 * time.Millisecond, Max: 10 * time.Second}

// untilDone calls attempt, which needs a server, until it succeeds or ctx ends. The process is not ready before.
func (p *process) untilDone(ctx context.Context, what string, attempt func() error) error {
	var failed atomic.Pointer[error]
	p.readyWhen(func() error {
		if err := failed.Load(); err != nil {
			return *err
		}
		return nil
	})
	starting := fmt.Errorf("waiting for %s", what)
	failed.Store(&starting)
	pauses := startRetries.Begin()
	trouble := retry.Trouble{Log: p.Logger, Failing: "waiting for " + what, Over: what + " answers"}
	for {
		err := attempt()
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		trouble.Report(err)
		if err == nil {
			failed.Store(nil)
			return nil
		}
		err = fmt.Errorf("waiting for %s: %w", what, err)
		failed.Store(&err)
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// BrokerConfig sets `binnacle broker`.
type BrokerConfig struct {
	Broker    broker.Config `kong:"embed"`
	DataDir   string        `help:"Data directory." default:"./binnacle-data/kafka"`
	Topics    []string      `help:"Topics that are created unless they exist." default:"telemetry,telemetry.dlq,telemetry.journal"`
	Groups    []string      `help:"Consumer groups that must have committed a record before it is deleted." default:"binnacle"`
	Advertise string        `help:"Address that clients get to connect to, host:port. Default: the listening address." placeholder:"ADDRESS"`
}

// Run serves the embedded Kafka alone until the context ends, and returns nil then.
func (cfg BrokerConfig) Run(ctx context.Context, env ops.Env) error {
	in := cfg.Broker
	in.DataDir, in.Topics, in.Groups, in.Advertise = cfg.DataDir, cfg.Topics, cfg.Groups, cfg.Advertise
	var faults faults
	faults.Check(cfg.DataDir != "", "--data-dir is empty")
	faults.Check(in.Partitions >= 1, "--partitions %d: a topic has at least 1", in.Partitions)
	faults.Check(in.RetentionBytes >= 0, "--kafka-mb %d is negative", in.RetentionBytes>>20)
	if err := faults.Err(); err != nil {
		return err
	}
	return run(ctx, env, func(_ context.Context, p *process) error {
		if err := writable(cfg.DataDir); err != nil {
			return err
		}
		b, err := p.openBroker(in)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "binnacle broker\n  kafka   %s  no login\n  topics  %s\n  data    %s\n",
			b.Addr(), strings.Join(cfg.Topics, " "), cfg.DataDir)
		return nil
	})
}

func (p *process) openBroker(cfg broker.Config) (*broker.Broker, error) {
	cfg = withJournals(cfg)
	cfg.Logger, cfg.Fatal = p.partLogger("kafka"), p.Fatal
	b, err := broker.Open(cfg)
	if err != nil {
		return nil, err
	}
	p.onClose("the embedded Kafka", b.Close)
	p.add("kafka", b.Run)
	return b, nil
}

// FleetConfig is what `binnacle fleet` runs with.
type FleetConfig struct {
	Kafka kafka.Config `kong:"embed,group='Kafka'"`
	Topic string       `help:"Topic to publish to." default:"telemetry"`
	Fleet fleet.Config `kong:"embed"`
}

// Run publishes the readings of simulated trucks until the context ends, and returns nil then.
func (cfg FleetConfig) Run(ctx context.Context, env ops.Env) error {
	return run(ctx, env, func(_ context.Context, p *process) error {
		cluster, err := p.openKafka(cfg.Kafka)
		if err != nil {
			return err
		}
		trucks := cfg.Fleet
		trucks.Topic = cluster.Topic(cfg.Topic)
		if err := trucks.Validate(); err != nil {
			return err
		}
		p.addFleet(trucks)
		fmt.Fprintf(p.Stdout, "binnacle fleet\n  kafka   %s  topic %s\n  fleet   %s\n",
			cluster.Address(), cfg.Topic, fleetLine(trucks))
		return nil
	})
}

func (p *process) addFleet(cfg fleet.Config) {
	cfg.Logger = p.partLogger("fleet")
	p.add("fleet", fleet.New(cfg).Run)
}

func fleetLine(c fleet.Config) string {
	return fmt.Sprintf("%d trucks, a reading every %s each, of the tenants %s in turn",
		c.Devices, duration.String(c.Interval), strings.Join(c.Tenants, " "))
}

// BalanceConfig sets the balancer of placements.
type BalanceConfig struct {
	Balance string        `help:"Whether tenants' keys follow the load from day to day. off: no; advise: decisions are stored and shown, and not applied; on: they are applied." enum:"off,advise,on" default:"${balance}"`
	From    time.Duration `name:"balance-from" help:"Time of the day in UTC from which on the next day's keys are decided." default:"${balance_from}"`
	Every   time.Duration `name:"balance-every" help:"Time between two looks of the balancer." default:"5m"`
	Future  time.Duration `name:"balance-future" help:"Largest --future of the ingesters of other processes: keys are decided so long, and an hour, before the day that they are for, 4h at least." default:"1h"`
}

// lead returns how long before their day epochs are stored: by 20:00, or earlier where ingesters accept readings of a
// later time (rule W1).
func (c BalanceConfig) lead() time.Duration { return max(4*time.Hour, ops.Lead(c.Future)) }

// addBalancer adds the stage that decides epochs.
func (p *process) addBalancer(c BalanceConfig, client *cosmos.Client, directory *control.Directory) {
	if c.Balance == "off" {
		return
	}
	log := p.partLogger("balance")
	p.add("balance", provision.NewBalancer(provision.BalancerConfig{
		Epochs: directory, Decisions: control.NewDecisions(client.Documents()), Advise: c.Balance != "on",
		Loads: provision.Loads{Ranges: client, Heat: heatlog.NewReader(client.Heat())},
		Lease: ops.ProvisionLease(client), Actions: ops.ActionsOf(client, "provision", log),
		From: c.From, Every: c.Every, Lead: c.lead(), Logger: log, Now: client.Clock().Now,
	}).Run)
}

// stage is a part of a process: it runs until its context ends or it fails.
type stage struct {
	name string
	run  func(context.Context) error
}

// lifecycle runs stages together and ends them one after another, the last one started first, so that no stage loses
// what it depends on.
type lifecycle struct {
	log    *slog.Logger
	failed chan error
	// pace makes the pauses of stages that are started from now on; nil leaves them as they are.
	pace    func(time.Duration) time.Duration
	mu      sync.Mutex
	running []running
}

type running struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

// start runs a stage in the background. wait returns its error.
func (l *lifecycle) start(s stage) {
	ctx, stop := context.WithCancel(context.Background())
	if l.pace != nil {
		ctx = retry.WithPace(ctx, l.pace)
	}
	r := running{s.name, stop, make(chan struct{})}
	l.mu.Lock()
	l.running = append(l.running, r)
	l.mu.Unlock()
	go func() {
		defer close(r.done)
		if err := s.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			select {
			case l.failed <- fmt.Errorf("%s: %w", s.name, err):
			default:
			}
		}
	}()
}

// wait returns nil when ctx ends, or the error of the first stage that fails.
func (l *lifecycle) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.failed:
		return err
	}
}

// stop ends all stages in reverse order, each when the one before has ended.
func (l *lifecycle) stop() {
	l.mu.Lock()
	stages := l.running
	l.running = nil
	l.mu.Unlock()
	for i := len(stages) - 1; i >= 0; i-- {
		l.log.Debug("stopping", "stage", stages[i].name)
		stages[i].stop()
		<-stages[i].done
	}
}
