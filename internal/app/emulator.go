package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"binnacle/internal/cosmosemu"
	"binnacle/internal/ru"
)

// EmulatorConfig is what `binnacle emulator` runs with.
type EmulatorConfig struct {
	Cosmos             string // address; its ids follow the rules of the routing gateway
	CosmosCompute      string // address of a second listener, with the rules of the compute gateway; "": none
	TLS                TLS    // of both
	Region             string
	Advertise          string
	Consistency        string
	DataDir            string
	PhysicalPartitions int
	Sync               bool
	Linear             bool
	Unlimited          bool
	RefuseBefore       bool  // 429 instead of debt
	Burst              bool  // saved idle budget
	PrefixVisitsAll    bool  // prefix queries pay for every physical partition
	PartitionBytes     int64 // from which on a physical partition is split; 0: 50 GB
	SplitTakes         time.Duration

	Stdout io.Writer
	Logger *slog.Logger
}

// Emulator serves the embedded Cosmos DB alone until the context ends, and returns nil then.
func Emulator(ctx context.Context, cfg EmulatorConfig) error {
	if err := writable(cfg.DataDir); err != nil {
		return err
	}
	model := ru.TableT
	if cfg.Linear {
		model = ru.Linear
	}
	s, err := cosmosemu.Open(cosmosemu.Config{
		DataDir: cfg.DataDir, PhysicalPartitions: cfg.PhysicalPartitions, Sync: cfg.Sync, Unlimited: cfg.Unlimited, Model: model, Logger: cfg.Logger,
		Region: cfg.Region, Advertise: cfg.Advertise, Consistency: cfg.Consistency,
		RefuseBefore: cfg.RefuseBefore, Burst: cfg.Burst, PrefixVisitsAll: cfg.PrefixVisitsAll,
		SplitTakes: cfg.SplitTakes, Limits: cosmosemu.Limits{PhysicalPartitionBytes: cfg.PartitionBytes},
	})
	if err != nil {
		return err
	}
	defer s.Close()
	var cert tls.Certificate
	var certFile string
	if cfg.TLS.On() {
		if cert, certFile, err = cfg.TLS.Certificate(cfg.DataDir, time.Now()); err != nil {
			return err
		}
	}
	life := newLifecycle(cfg.Logger)
	defer life.stop()
	var text strings.Builder
	text.WriteString("binnacle emulator\n")
	for _, door := range []struct {
		name, addr string
		handler    http.Handler
	}{{"endpoint", cfg.Cosmos, s.RoutingGateway()}, {"compute", cfg.CosmosCompute, s.ComputeGateway()}} {
		if door.addr == "" {
			continue
		}
		l, err := listen("the embedded Cosmos DB", door.addr)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "  %-9s %s://%s/\n", door.name, cfg.TLS.Scheme(), reachable(l))
		if door.name == "endpoint" {
			fmt.Fprintf(&text, "  page      %s://%s/_emulator\n", cfg.TLS.Scheme(), reachable(l))
		}
		if cfg.TLS.On() {
			l = over(l, cert)
		}
		life.start(stage{"cosmos " + door.name, serve(l, door.handler)})
	}
	life.start(stage{"cosmos", s.Run})
	fmt.Fprintf(&text, "  key       %s\n  data      %s\n", cosmosemu.Key, cfg.DataDir)
	if certFile != "" {
		fmt.Fprintf(&text, "  trust     SSL_CERT_FILE=%s\n", certFile)
	}
	fmt.Fprint(cfg.Stdout, text.String())
	return life.wait(ctx)
}
