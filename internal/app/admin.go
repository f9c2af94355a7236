package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"

	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/ops"
	"binnacle/internal/rollups"
	"binnacle/internal/tenant"
	"binnacle/query/console"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminConfig sets the admin listener. Metrics and health are open to everyone who reaches it; profiles, open bins,
// limits and refused messages of all tenants are for operators.
type AdminConfig struct {
	Admin string `help:"Address of the admin listener: metrics and health for everyone; profiles, open bins, limits and refused messages for callers on this machine or with the admin token." default:"127.0.0.1:7071"`

	AdminTrust `kong:"embed"`
}

// AdminTrust sets which callers count as operators.
type AdminTrust struct {
	TokenFile string `name:"admin-token-file" help:"File with the admin token, which operators on other machines send as a bearer token to the admin listener. It is read again when it changes. Default: no token." placeholder:"FILE"`

	Hosts ops.TrustedHosts `kong:"embed"`
}

var errCatchingUp = errors.New("ingest is still reading what was in Kafka at the start")

func (p *process) openAdmin(cfg AdminConfig) (listener, error) {
	d, err := p.listen("the admin listener", "--admin", cfg.Admin)
	if err != nil {
		return listener{}, err
	}
	var token func() string
	if cfg.TokenFile != "" {
		file, err := ops.WatchSecret(cfg.TokenFile)
		if err != nil {
			return listener{}, fmt.Errorf("read --admin-token-file: %w", err)
		}
		token = file.Text
	}
	profiles(p.adminMux)
	mux := http.NewServeMux()
	mux.Handle("/", cfg.Hosts.Operators(token, p.adminMux))
	registerAdmin(mux, p.metrics, p.Ready)
	d.serve(mux)
	return d, nil
}

// operatorsPage returns the page, and serves that of operators at the admin listener, once for all roles.
func (p *process) operatorsPage() (*console.Handler, error) {
	if p.page == nil {
		page, err := console.New()
		if err != nil {
			return nil, err
		}
		page.RegisterOperators(p.adminMux)
		p.page = page
	}
	return p.page, nil
}

// registerAdmin adds what is open to everyone: metrics, health and readiness. ready returns what is not ready, or
// nil.
func registerAdmin(mux *http.ServeMux, metrics prometheus.Gatherer, ready func() error) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

func profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// RollupsConfig configures a process that may make rollups together with other roles.
type RollupsConfig struct {
	Rollups bool           `help:"Make rollups, which panels over many devices read instead of chunks. Several processes share the work." default:"true" negatable:""`
	Maker   rollups.Config `kong:"embed"`
}

// RollupsRoleConfig is what `binnacle rollups` runs with.
type RollupsRoleConfig struct {
	Account ops.AccountConfig `kong:"embed,group='Cosmos DB'"`
	Rollups rollups.Config    `kong:"embed,group='Rollups'"`
	Admin   AdminConfig       `kong:"embed"`

	Check bool `help:"Check that everything the role needs exists, and exit."`
}

// Run makes rollups until the context ends, and returns nil then.
func (cfg RollupsRoleConfig) Run(ctx context.Context, env ops.Env) error {
	var faults faults
	faults.Add(cfg.Account.Validate())
	faults.Add(cfg.Rollups.Validate())
	if err := faults.Err(); err != nil {
		return err
	}
	cfg.Rollups.Hold = cmp.Or(cfg.Rollups.Hold, ops.DefaultHold)
	return roles{name: "rollups", account: cfg.Account, admin: cfg.Admin, check: cfg.Check,
		rollups: &cfg.Rollups}.run(ctx, env)
}

// addRollups builds the role and adds its stage.
func (p *process) addRollups(cfg rollups.Config, a account) error {
	cfg.Tenants = func() []tenant.Tenant { return a.directory.Snapshot().Tenants() }
	cfg.Lease = ops.LeasesOf(a.client, "rollups")
	cfg.Logger, cfg.Metrics = p.partLogger("rollups"), p.metrics
	w, err := ops.NewRollups(cfg, a.client, a.directory)
	if err != nil {
		return err
	}
	p.add("rollups", func(ctx context.Context) error {
		return w.Run(purpose.With(ctx, &purpose.Purpose{Kind: charges.Rollups}))
	})
	return nil
}
