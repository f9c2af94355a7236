package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// EmulatorListener sets the address of the embedded Cosmos DB.
type EmulatorListener struct {
	Cosmos string `help:"Address of the embedded Cosmos DB. Port 0 takes a free port." default:"127.0.0.1:8081"`
}

// EmulatorConfig sets `binnacle emulator`.
type EmulatorConfig struct {
	Listener      EmulatorListener `kong:"embed"`
	CosmosCompute string           `help:"Address of a second listener that accepts every item id in a path, as the service's compute gateway does; --cosmos follows its routing gateway. Default: none." placeholder:"ADDRESS"`
	TLS           ops.TLS          `kong:"embed"`
	Hosts         ops.TrustedHosts `kong:"embed"`
	DataDir       string           `help:"Data directory." default:"./binnacle-data/cosmos"`
	Emulator      emulator.Config  `kong:"embed"`
}

func (f *faults) emulator(c emulator.Config) {
	f.Check(c.PhysicalPartitions >= 0, "--physical-partitions %d is negative; 0 does as the service", c.PhysicalPartitions)
	f.Check(c.Limits.PhysicalPartitionBytes >= 0, "--partition-bytes %d is negative", c.Limits.PhysicalPartitionBytes)
}

// Run serves the embedded Cosmos DB alone until the context ends, and returns nil then.
func (cfg EmulatorConfig) Run(ctx context.Context, env ops.Env) error {
	var faults faults
	faults.Check(cfg.DataDir != "", "--data-dir is empty")
	faults.emulator(cfg.Emulator)
	if err := faults.Err(); err != nil {
		return err
	}
	return run(ctx, env, func(_ context.Context, p *process) error {
		if err := writable(cfg.DataDir); err != nil {
			return err
		}
		cfg.Emulator.DataDir = cfg.DataDir
		s, err := p.openEmulator(cfg.Emulator)
		if err != nil {
			return err
		}
		var encryption *tls.Config
		var certFile string
		if cfg.TLS.On() {
			var made tls.Certificate
			if made, certFile, err = cfg.TLS.Certificate(cfg.DataDir, time.Now()); err != nil {
				return err
			}
			encryption = &tls.Config{Certificates: []tls.Certificate{made}, MinVersion: tls.VersionTLS12,
				NextProtos: []string{"http/1.1"}} // costs the emulator less than HTTP/2
		}
		var text strings.Builder
		text.WriteString("binnacle emulator\n")
		for _, gateway := range []struct {
			name, flag, addr string
			handler          http.Handler
		}{{"endpoint", "--cosmos", cfg.Listener.Cosmos, s.RoutingGateway()},
			{"compute", "--cosmos-compute", cfg.CosmosCompute, s.ComputeGateway()}} {
			if gateway.addr == "" {
				continue
			}
			d, err := p.listen("the embedded Cosmos DB", gateway.flag, gateway.addr)
			if err != nil {
				return err
			}
			d.encryptAs(encryption).serve(cfg.Hosts.Guard(gateway.handler))
			fmt.Fprintf(&text, "  %-9s %s://%s/\n", gateway.name, cfg.TLS.Scheme(), d.addr())
			if gateway.name == "endpoint" {
				fmt.Fprintf(&text, "  page      %s://%s/_emulator\n", cfg.TLS.Scheme(), d.addr())
			}
		}
		fmt.Fprintf(&text, "  key       %s\n  capacity  %s\n  data      %s\n", emulator.Key, s.Capacity(), cfg.DataDir)
		if certFile != "" {
			fmt.Fprintf(&text, "  trust     SSL_CERT_FILE=%s\n", certFile)
		}
		fmt.Fprint(p.Stdout, text.String())
		return nil
	})
}

// openEmulator opens the embedded Cosmos DB and adds its stage. Its transport works from now on.
func (p *process) openEmulator(cfg emulator.Config) (*emulator.Server, error) {
	cfg.Logger, cfg.Fatal = p.partLogger("cosmos"), p.Fatal
	s, err := emulator.Open(cfg)
	if err != nil {
		return nil, err
	}
	p.onClose("the embedded Cosmos DB", s.Close)
	p.add("cosmos", s.Run)
	return s, nil
}

// faults are what is wrong with settings: all of it is said at once.
type faults struct{ settings.Faults }

func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, ops.Reason(err))
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("data directory %s is not writable: %w", dir, ops.Reason(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// watchPartitionsEvery is how often the metrics of physical partitions are computed, and the time that they cover.
const watchPartitionsEvery = 5 * time.Minute

// PartitionGauges are the metrics of the physical partitions of this month's containers.
type PartitionGauges struct {
	rus, used, throttled *prometheus.GaugeVec
	hottest              *prometheus.GaugeVec
}

// NewPartitionGauges registers the metrics.
func NewPartitionGauges(r prometheus.Registerer) PartitionGauges {
	f := promauto.With(r)
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			append([]string{"container"}, labels...))
	}
	return PartitionGauges{
		rus: gauge("binnacle_heat_partition_request_units",
			"Request units a second that a physical partition took in five minutes, of "+
				"all processes. Partitions are numbered by their place in the key space.", "partition"),
		used: gauge("binnacle_heat_partition_busiest_ratio",
			"Request units of the busiest minute, of what is bought for the partition.",
			"partition"),
		throttled: gauge("binnacle_heat_partition_throttled",
			"Requests that a physical partition answered 429 in five minutes.",
			"partition"),
		hottest: gauge("binnacle_heat_hottest_partition_ratio",
			"Request units of the hottest physical partition over the mean of all."),
	}
}

// watchPartitions adds the stage that keeps the metrics of physical partitions.
func (p *process) watchPartitions(s ops.HeatSource) {
	gauges := NewPartitionGauges(p.metrics)
	loop := retry.Loop{Log: p.partLogger("heat"), Failing: "metrics of physical partitions are not made", Delayed: true,
		Over: "metrics of physical partitions are made again", Every: watchPartitionsEvery, Spends: true}
	p.add("partitions", func(ctx context.Context) error {
		return loop.Run(ctx, func(ctx context.Context) error {
			chunks := s.Snapshot().SharedOn(telemetry.DayOf(time.Now().UnixMilli()))
			var faults []error
			for _, container := range []string{chunks, sharding.RollupsContainer(chunks)} {
				err := gauges.Update(ctx, s, container)
				if !errors.Is(err, store.ErrNoContainer) {
					faults = append(faults, err)
				}
			}
			return errors.Join(faults...)
		})
	})
}

// Update computes the metrics of a container.
func (g PartitionGauges) Update(ctx context.Context, s ops.HeatSource, container string) error {
	facts, err := s.Facts(ctx, ops.HeatRequest{Container: container, Since: watchPartitionsEvery}, time.Now())
	if err != nil {
		return err
	}
	r := heat.NewReport(facts)
	for _, v := range []*prometheus.GaugeVec{g.rus, g.used, g.throttled, g.hottest} {
		v.DeletePartialMatch(prometheus.Labels{"container": container})
	}
	hottest := 0.0
	for _, part := range r.Partitions {
		name := strconv.Itoa(part.Partition)
		g.rus.WithLabelValues(container, name).Set(part.RUs)
		g.used.WithLabelValues(container, name).Set(part.BusiestUsed)
		g.throttled.WithLabelValues(container, name).Set(float64(part.Throttled))
		hottest = max(hottest, part.Share*float64(len(r.Partitions)))
	}
	g.hottest.WithLabelValues(container).Set(hottest)
	return nil
}
