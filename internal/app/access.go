package app

import (
	"net/netip"
	"strings"

	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/internal/tenant/access"
)

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
