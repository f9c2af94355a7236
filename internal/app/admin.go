package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	_ "net/http/pprof" // profiles, in http.DefaultServeMux

	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/ops"
	"binnacle/internal/rollups"
	"binnacle/internal/tenant"
	"binnacle/query/console"

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
		token = file.Get
	}
	p.adminMux.Handle("GET /debug/pprof/", http.DefaultServeMux)
	mux := http.NewServeMux()
	mux.Handle("/", cfg.Hosts.Operators(token, p.adminMux))
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
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
