package app

import (
	"crypto/tls"
	"net/http"
	"time"

	"binnacle/internal/access"
	"binnacle/internal/store"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/prom"
)

// QueryConfig is what the role runs with that answers queries.
type QueryConfig struct {
	API   string       `name:"api" help:"Address of the query API." default:"127.0.0.1:7070"`
	Cert  string       `name:"api-tls-cert" help:"Certificate of the query API, PEM. It is looked at again now and then. Default: no TLS." placeholder:"FILE"`
	Key   string       `name:"api-tls-key" help:"Its key." placeholder:"FILE"`
	Query query.Config `kong:"embed"`
	Prom  prom.Config  `kong:"embed"`
}

// door notes what is wrong with the settings of the API's address.
func (f *faults) door(c QueryConfig) {
	f.check((c.Cert == "") == (c.Key == ""), "--api-tls-cert and --api-tls-key are given together, or neither")
}

// url is where the API is reached.
func (c QueryConfig) url(at door) string {
	if c.Cert != "" {
		return "https://" + at.addr()
	}
	return "http://" + at.addr()
}

// openAPI takes the address of the API.
func (p *process) openAPI(cfg QueryConfig) (door, error) {
	d, err := p.listen("the query API", cfg.API)
	if err != nil || cfg.Cert == "" {
		return d, err
	}
	pair, err := followPair(cfg.Cert, cfg.Key)
	if err != nil {
		return door{}, err
	}
	return d.encryptAs(&tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.certificate() },
	}), nil
}

// query notes what is wrong with the settings of queries.
func (f *faults) query(c query.Config) {
	f.check(c.Fanout > 0, "--query-fanout %d is not above 0", c.Fanout)
	f.check(c.MemoryBytes > 0, "--query-memory-mb %d is not above 0", c.MemoryBytes>>20)
	f.check(c.TotalMemoryBytes >= c.MemoryBytes, "--queries-memory-mb %d: one query alone may hold %d",
		c.TotalMemoryBytes>>20, c.MemoryBytes>>20)
	f.check(c.MaxRUs > 0, "--query-max-rus %v is not above 0", c.MaxRUs)
	f.check(c.MaxQueries > 0, "--max-queries %d is not above 0", c.MaxQueries)
	f.check(c.MaxQueued > 0, "--max-queued %d is not above 0", c.MaxQueued)
	f.check(c.QueueTimeout > 0, "--queue-timeout %s is not above 0", c.QueueTimeout)
}

// promql notes what is wrong with the settings of PromQL.
func (f *faults) promql(c prom.Config) {
	f.check(c.Lookback >= time.Millisecond, "--promql-lookback %s is less than 1ms", c.Lookback)
	f.check(c.Timeout > 0, "--promql-timeout %s is not above 0", c.Timeout)
	f.check(c.MaxSamples > 0, "--promql-max-samples %d is not above 0", c.MaxSamples)
	f.check(c.MemoryBytes > 0, "--promql-memory-mb %d is not above 0", c.MemoryBytes>>20)
}

// newQuery builds the role that answers queries from heads and the account, and serves it at a door.
func (p *process) newQuery(cfg QueryConfig, a account, heads store.Heads, log store.Log, gate *access.Gate,
	at door) error {
	asks := cfg.Query
	asks.Reader, asks.Heads, asks.Log = a.client.Chunks(), heads, log
	asks.Directory, asks.Catalog = a.directory, a.client.Catalog()
	asks.Registerer, asks.Logger = p.metrics, p.part("query")
	q, err := query.New(asks)
	if err != nil {
		return err
	}
	h, err := httpapi.New(httpapi.Config{Querier: q, Gate: gate, Logger: p.part("api")})
	if err != nil {
		return err
	}
	promql := cfg.Prom
	promql.Querier, promql.Gate, promql.Logger = q, gate, p.part("promql")
	ph, err := prom.New(promql)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(prom.Prefix+"/", ph)
	mux.Handle("/", h)
	at.serve(mux)
	return nil
}
