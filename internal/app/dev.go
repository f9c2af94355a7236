package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/cosmosemu"
	"binnacle/internal/fleet"
	"binnacle/internal/kafkaemu"
	"binnacle/internal/provision"
	"binnacle/query"
	"binnacle/query/httpapi"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/segmentio/kafka-go"
)

// dev is everything in one process.
type dev struct {
	cfg  DevConfig
	log  *slog.Logger
	life *lifecycle

	// Opened in this order, closed in the reverse one.
	broker             *kafkaemu.Broker
	emulator           *cosmosemu.Server
	cosmos, api, admin net.Listener
	client             *cosmos.Client
	letters            *ingest.TopicUndertaker

	metrics   *prometheus.Registry
	directory *control.Directory
	ingester  *ingest.Ingester
	announced atomic.Bool // stdout says where everything is
}

// open takes the directories and the addresses: whatever is wrong with them is found before anything runs.
func (d *dev) open(ctx context.Context) error {
	if err := writable(d.cfg.DataDir); err != nil {
		return err
	}
	var err error
	d.broker, err = kafkaemu.Open(kafkaemu.Config{
		DataDir: filepath.Join(d.cfg.DataDir, "kafka"), Addr: d.cfg.Kafka, Partitions: d.cfg.Partitions,
		Topics: []string{Topic, DeadLetters}, RetentionBytes: logBytes, Groups: []string{Group}, Logger: d.log.With("part", "kafka"),
	})
	if err != nil {
		return err
	}
	d.emulator, err = cosmosemu.Open(cosmosemu.Config{
		DataDir: filepath.Join(d.cfg.DataDir, "cosmos"), PhysicalPartitions: d.cfg.PhysicalPartitions, Logger: d.log.With("part", "cosmos"),
	})
	if err != nil {
		return err
	}
	if d.cosmos, err = listen("the embedded Cosmos DB", d.cfg.Cosmos); err != nil {
		return err
	}
	if d.api, err = listen("the query API", d.cfg.API); err != nil {
		return err
	}
	if d.admin, err = listen("the admin endpoint", d.cfg.Admin); err != nil {
		return err
	}
	return ctx.Err()
}

// logBytes bounds what the embedded broker keeps of each partition that is stored already: a start reads all of it.
const logBytes = 64 << 20

// writable makes the directory and tells whether files can be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, reason(err))
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("data directory %s is not writable: %w", dir, reason(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// reason is an error without the path that the caller names anyway.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// start builds the roles and starts them, each after what it stands on.
func (d *dev) start(ctx context.Context) error {
	d.metrics = prometheus.NewRegistry()
	d.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.life.start(stage{"kafka", d.broker.Run})
	d.life.start(stage{"cosmos", d.emulator.Run})
	d.life.start(stage{"cosmos http", serve(d.cosmos, d.emulator)})
	d.life.start(stage{"admin", serve(d.admin, admin(d.metrics, d.ready))})

	var err error
	d.client, err = cosmos.New(cosmos.Config{
		Endpoint: d.emulator.Endpoint(), Key: cosmosemu.Key, Transport: d.emulator.Transport(),
		Logger: d.log.With("part", "cosmos"), Registerer: d.metrics,
	})
	if err != nil {
		return err
	}
	if err := d.client.EnsureBase(ctx); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	d.directory = control.NewDirectory(control.DirectoryConfig{
		Documents: d.client.Documents(), Retention: d.cfg.Retention, Lead: lead(d.cfg.Future), Logger: d.log,
	})
	if _, err := d.directory.Refresh(ctx); err != nil {
		return fmt.Errorf("read the map of tenants: %w", err)
	}
	d.life.start(stage{"directory", d.directory.Run})
	asked, err := d.startProvision()
	if err != nil {
		return err
	}
	if err := d.buildIngest(asked); err != nil {
		return err
	}
	if err := d.startQuery(); err != nil {
		return err
	}
	d.life.start(stage{"ingest", d.ingester.Run})
	d.announce()
	if d.cfg.Fleet > 0 {
		d.startFleet()
	}
	return nil
}

// lead is how long before its first day an epoch must be stored, so that a copy of the map can place whatever event time is
// accepted (rule W1): the accepted future with room for the copy's age and for clocks that differ.
func lead(future time.Duration) time.Duration { return max(2*time.Hour, future+time.Hour) }

// startProvision starts the loop that makes containers. The answer is the directory as ingest uses it: what ingest asks
// for is made at once.
func (d *dev) startProvision() (ingest.Directory, error) {
	p, err := provision.New(provision.Config{
		Containers: d.client.Containers(), Directory: d.directory, Policy: provision.DevPolicy(),
		Poll:   30 * time.Second, // who asks is in this process, and wakes it
		Logger: d.log.With("part", "provision"), Registerer: d.metrics,
	})
	if err != nil {
		return nil, err
	}
	d.life.start(stage{"provision", p.Run})
	return askingDirectory{d.directory, p.Wake}, nil
}

// askingDirectory wakes provision when ingest asks for a container.
type askingDirectory struct {
	*control.Directory
	wake func()
}

// AskMonth is ingest.Directory.
func (a askingDirectory) AskMonth(ctx context.Context, container string) error {
	if err := a.Directory.AskMonth(ctx, container); err != nil {
		return err
	}
	a.wake()
	return nil
}

func (d *dev) buildIngest(directory ingest.Directory) error {
	d.letters = ingest.NewTopicUndertaker(d.broker.Addr(), DeadLetters, nil)
	var err error
	d.ingester, err = ingest.New(ingest.Config{
		Config: worker.Config{
			Topic: Topic, Decode: d.cfg.Decode, Register: true, Hold: d.cfg.Hold, Future: d.cfg.Future, NoteEvery: -1,
		},
		Kafka: d.broker.Addr(), DeadLetters: DeadLetters, Group: Group, MemoryBytes: d.cfg.Memory,
		Logger: d.log.With("part", "ingest"), Registerer: d.metrics,
	}, ingest.Stores{
		Chunks: d.client.Chunks(), Directory: directory, Catalog: d.client.Catalog(),
		Streams: control.NewStreams(d.client.Documents()), Letters: d.letters,
	})
	return err
}

func (d *dev) startQuery() error {
	q, err := query.New(query.Config{
		Reader: d.client.Chunks(), Heads: d.ingester, Log: ingest.NewBroker(d.broker.Addr(), Topic, nil),
		Directory: d.directory, Catalog: d.client.Catalog(), Registerer: d.metrics, Logger: d.log.With("part", "query"),
	})
	if err != nil {
		return err
	}
	h, err := httpapi.New(httpapi.Config{Querier: q, Logger: d.log.With("part", "api")})
	if err != nil {
		return err
	}
	d.life.start(stage{"api", serve(d.api, h)})
	return nil
}

func (d *dev) startFleet() {
	f := fleet.New(fleet.Config{
		Kafka: d.broker.Addr(), Topic: Topic, Compression: kafka.Lz4, Devices: d.cfg.Fleet, Interval: time.Second, Seed: 1,
		Logger: d.log.With("part", "fleet"),
	})
	d.life.start(stage{"fleet", f.Run})
}

// ready says why the process is not ready yet.
func (d *dev) ready() error {
	switch {
	case !d.announced.Load():
		return errors.New("starting")
	case !d.ingester.CaughtUp():
		return errors.New("ingest is still reading what was in Kafka at the start")
	}
	return nil
}

// close gives back what open took.
func (d *dev) close() {
	for _, l := range []net.Listener{d.cosmos, d.api, d.admin} {
		if l != nil {
			l.Close()
		}
	}
	if d.letters != nil {
		d.letters.Close()
	}
	if d.client != nil {
		d.client.Close()
	}
	if d.emulator != nil {
		if err := d.emulator.Close(); err != nil {
			d.log.Error("embedded Cosmos DB not closed cleanly", "err", err)
		}
	}
	if d.broker != nil {
		if err := d.broker.Close(); err != nil {
			d.log.Error("embedded Kafka not closed cleanly", "err", err)
		}
	}
}
