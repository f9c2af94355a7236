package app

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/erasure"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/kafka"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/diagnose/heatmap"
	"binnacle/query/diagnose/rejected"
	"binnacle/query/httpapi"
	"binnacle/query/prom"
)

// QueryConfig sets the query role.
type QueryConfig struct {
	API   string       `name:"api" help:"Address of the query API." default:"127.0.0.1:7070"`
	Cert  string       `name:"api-tls-cert" help:"File with the TLS certificate of the query API, PEM. It is read again when it changes. Default: no TLS." placeholder:"FILE"`
	Key   string       `name:"api-tls-key" help:"File with the key of that certificate, PEM." placeholder:"FILE"`
	Query query.Config `kong:"embed"`
	Prom  prom.Config  `kong:"embed"`

	RejectedBytes int64 `name:"rejected-mb" help:"Memory for the newest refused messages, in MiB." type:"mib" default:"64"`

	Priority string `name:"query-priority" help:"Priority of the reads of queries: low, so that ingest comes first when throughput is short, or high. It needs an account with priority-based execution." enum:"low,high" default:"low"`
}

func (f *faults) query(c QueryConfig) {
	f.Add(c.Query.Validate())
	f.promql(c.Prom)
	f.Check((c.Cert == "") == (c.Key == ""), "--api-tls-cert and --api-tls-key are given together, or neither")
	f.Check(c.RejectedBytes >= 1<<20, "--rejected-mb %d is not above 0", c.RejectedBytes>>20)
}

func (c QueryConfig) url(at listener) string {
	if c.Cert != "" {
		return "https://" + at.addr()
	}
	return "http://" + at.addr()
}

func (p *process) openAPI(cfg QueryConfig) (listener, error) {
	d, err := p.listen("the query API", "--api", cfg.API)
	if err != nil || cfg.Cert == "" {
		return d, err
	}
	pair, err := ops.WatchKeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		return listener{}, err
	}
	return d.encryptAs(&tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}), nil
}

func (f *faults) promql(c prom.Config) {
	f.Check(c.Lookback >= time.Millisecond, "--promql-lookback %s is less than 1ms", c.Lookback)
	f.Check(c.MaxSamples > 0, "--promql-max-samples %d is not above 0", c.MaxSamples)
	f.Check(c.MemoryBytes > 0, "--promql-memory-mb %d is not above 0", c.MemoryBytes>>20)
}

// deadLetterSource is the cluster and topics of readings and dead letters.
type deadLetterSource struct {
	cluster  *kafka.Client
	topics   topics.Set
	messages decode.Options // how ingesters read messages
}

type queryRole struct {
	cfg     QueryConfig
	access  AccessConfig
	hosts   ops.TrustedHosts
	account account
	heads   store.Heads
	from    deadLetterSource
	api     listener
	publish *httpapi.Publishing // nil: /api/v1/tenant does not name it
	// operators is the address of the page of operators that /api/v1/tenant names; empty: none
	operators string
}

func (p *process) newQuery(r queryRole) error {
	cfg, a, from := r.cfg, r.account, r.from
	gate, err := p.gate(r.access, a.client.Documents(), r.hosts)
	if err != nil {
		return err
	}
	asks := cfg.Query
	at := cosmos.Priority{Low: cfg.Priority == "low", Awaited: true}
	asks.Reader, asks.Heads, asks.Log = a.client.Chunks().At(at), r.heads,
		from.cluster.Sources(from.topics)
	asks.Topics = from.topics
	asks.Rollups = a.client.Rollups()
	asks.Directory, asks.Catalog = a.directory, a.client.CatalogAt(at)
	asks.Registerer, asks.Logger = p.metrics, p.partLogger("query")
	if asks.Now == nil {
		asks.Now = a.client.Clock().Now
	}
	q, err := query.New(asks)
	if err != nil {
		return err
	}
	refused := rejected.New(rejected.Config{DeadLetters: from.cluster.Topic(from.topics.DeadLetters()),
		Topics:   from.topics,
		Messages: from.messages, MaxBytes: cfg.RejectedBytes, Logger: p.partLogger("rejected"),
		Erasures: func(tenant string) erasure.List { return a.directory.Snapshot().Erasures(tenant) }})
	p.add("rejected", refused.Run)
	p.adminMux.Handle("GET "+ops.PlacementPath, ops.ServePlacement(a.client))
	p.adminMux.Handle("GET "+ops.ActionsPath, ops.ServeActions(a.client, p.partLogger("admin")))
	ops.TenantAPI{Docs: a.client.Documents(), Via: ops.ProcessIdentity(p.Command), Log: p.partLogger("admin"),
		Client: a.client, Cluster: from.cluster}.Register(p.adminMux)
	cost := ops.NewCosts(a.client)
	p.adminMux.Handle("GET "+ops.CostsPath, ops.Endpoint(cost.Serve))
	p.adminMux.Handle("GET "+ops.TenantsPath+"/{tenant}/cost", ops.Endpoint(cost.Serve))
	p.adminMux.Handle("GET /api/v1/rejected",
		httpapi.AllRejected(httpapi.Config{Rejected: refused, Now: a.client.Clock().Now}))
	p.adminMux.Handle("GET "+ops.IngestersPath, ops.ServeIngesters(r.heads))
	heats := ops.HeatSource{Client: a.client, Snapshot: a.directory.Snapshot}
	p.adminMux.Handle("GET "+ops.PartitionsPath, ops.Endpoint(heats.ServePartitions))
	h, err := httpapi.New(httpapi.Config{Querier: q, Rejected: refused, Gate: gate, Cost: cost.Cost,
		Annotations: ops.AnnotationsOf(a.client, a.directory), Publish: r.publish, Operators: r.operators,
		Sequence: from.messages.Sequence, Logger: p.partLogger("api"), Now: a.client.Clock().Now})
	if err != nil {
		return err
	}
	promql := cfg.Prom
	promql.Querier, promql.Gate, promql.Logger = q, gate, p.partLogger("promql")
	if promql.Now == nil {
		promql.Now = a.client.Clock().Now
	}
	ph, err := prom.New(promql)
	if err != nil {
		return err
	}
	page, err := p.operatorsPage()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	page.Register(mux)
	p.adminMux.Handle("GET /api/v1/heat", ops.Endpoint(heatmap.NewHandler(heatmap.Config{
		Source: heatlog.NewReader(a.client.Heat()), Ranges: a.client.RangesOf,
		Shared: func(day telemetry.Day) string { return a.directory.Snapshot().SharedOn(day) },
		Marks:  func(container string) []heatmap.Mark { return epochMarks(a.directory.Snapshot(), container) },
		Now:    a.client.Clock().Now,
	}).Serve))
	mux.Handle(prom.Prefix+"/", ph)
	mux.Handle("/", h)
	r.api.serve(httpapi.Explained(mux))
	return nil
}

// epochMarks returns when epochs of tenants begin that have chunks in a container.
func epochMarks(known *control.Snapshot, container string) (marks []heatmap.Mark) {
	for _, t := range known.Tenants() {
		for _, e := range t.Placement.Epochs()[1:] {
			if t.Placement.Key("", e.From, 0).Container == container {
				marks = append(marks, heatmap.Mark{At: e.From.Start(), Kind: "epoch",
					Text: fmt.Sprintf("%s has %d slots from %s on", t.Name, len(e.Slots), e.From)})
			}
		}
	}
	return marks
}

// AccessConfig sets how callers of the query API are identified.
type AccessConfig struct {
	Issuer      string   `name:"oidc-issuer" help:"URL of the OpenID Connect provider whose tokens are accepted. Default: none." placeholder:"URL"`
	Audiences   []string `name:"oidc-audience" help:"Audiences, separated by commas. A token of the provider must have one of them." placeholder:"NAME"`
	TenantClaim string   `name:"oidc-tenant-claim" help:"Claim of its tokens with the tenant or a list of tenants." default:"tenant" placeholder:"CLAIM"`
	ScopeClaim  string   `name:"oidc-scope-claim" help:"Claim of its tokens with the scopes. A token without the claim may read." default:"scope" placeholder:"CLAIM"`
	ScopePrefix string   `name:"oidc-scope-prefix" help:"Prefix of scopes in its tokens, such as binnacle. Default: none." placeholder:"PREFIX"`
	Proxies     []string `name:"trusted-proxies" help:"Addresses or ranges, such as 10.1.0.0/16, whose requests need no token and name the tenant in X-Scope-OrgID." default:"${trusted_proxies=}" placeholder:"CIDR"`

	// ProxiesMayWrite gives requests of Proxies the scope write, too: dev's are of its own machine.
	ProxiesMayWrite bool `kong:"-"`
}

func (c AccessConfig) prefixes() (out []netip.Prefix, wrong []string) {
	for _, text := range c.Proxies {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(text); err == nil {
				prefix = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		if err != nil {
			wrong = append(wrong, text)
			continue
		}
		out = append(out, prefix)
	}
	return out, wrong
}

func (f *faults) access(c AccessConfig) {
	f.Check((c.Issuer == "") == (len(c.Audiences) == 0),
		"--oidc-issuer and --oidc-audience are given together, or neither")
	_, wrong := c.prefixes()
	f.Check(len(wrong) == 0, "--trusted-proxies %s: an address or a range such as 10.1.0.0/16 is needed",
		strings.Join(wrong, ","))
}

// gate returns what identifies callers: by tokens in the account, by an identity provider, or by trusted addresses.
func (p *process) gate(c AccessConfig, documents store.Documents, hosts ops.TrustedHosts) (*access.Gate, error) {
	cfg := access.Config{Tokens: tenant.NewTokens(documents).List, AllowHost: hosts.Allow, Logger: p.partLogger("access"),
		Registerer: p.metrics, ProxiesMayWrite: c.ProxiesMayWrite}
	cfg.Proxies, _ = c.prefixes()
	for _, audience := range c.Audiences {
		cfg.Issuers = append(cfg.Issuers, access.IssuerConfig{
			Issuer: c.Issuer, Audience: audience, TenantClaim: c.TenantClaim, ScopeClaim: c.ScopeClaim,
			ScopePrefix: c.ScopePrefix,
		})
	}
	return access.New(cfg)
}
