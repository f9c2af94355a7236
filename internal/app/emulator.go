package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/recording"
	"binnacle/internal/ops"
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
	Record        string           `help:"File that takes every exchange with its charge, one line of JSON each, for \"binnacle emulator diff\". It is written anew. Default: none." type:"path" placeholder:"FILE"`
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
		if err := p.recordTo(cfg.Record, &cfg.Emulator); err != nil {
			return err
		}
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

// recordTo makes the emulator record its exchanges in a file, "" for none.
func (p *process) recordTo(name string, cfg *emulator.Config) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("record exchanges: %w", err)
	}
	cfg.Record = recording.NewWriter(file)
	p.onClose("the recording", func() error { return errors.Join(cfg.Record.Err(), file.Close()) })
	return nil
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
