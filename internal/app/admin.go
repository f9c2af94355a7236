package app

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// AdminConfig is where operators and their machines ask.
type AdminConfig struct {
	Admin string `help:"Address of metrics, health and profiles." default:"127.0.0.1:7071"`
}

var errCatchingUp = errors.New("ingest is still reading what was in Kafka at the start")

// openAdmin takes the address of the admin endpoint and adds its stage.
func (p *process) openAdmin(cfg AdminConfig) (door, error) {
	d, err := p.listen("the admin endpoint", cfg.Admin)
	if err != nil {
		return door{}, err
	}
	admin(p.operators, p.metrics, p.Ready)
	d.serve(p.operators)
	return d, nil
}

// admin answers what operators and their machines ask: metrics, health, readiness and profiles. ready says why the
// process is not ready, nil when it is. Roles add to it.
func admin(mux *http.ServeMux, metrics prometheus.Gatherer, ready func() error) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
