package ops

import (
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"binnacle/internal/tenant"
	"binnacle/query/httpapi"
)

// TrustedHosts are the names under which callers that are trusted for their address may reach a listener. A web page
// of any site can send requests to this machine under another name (DNS rebinding): the browser's address is trusted,
// so the name in the Host header must be too.
type TrustedHosts struct {
	Names []string `name:"trusted-hosts" help:"Names in the Host header that are accepted, besides localhost and IP addresses of this machine, from callers that are trusted for their address. Default: none." placeholder:"NAME"`
}

// Allow reports whether the Host header of a request names loopback, localhost, the address that the connection came
// to, or a configured name.
func (h TrustedHosts) Allow(r *http.Request) bool {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Unmap().IsLoopback() || addr.Unmap() == localAddr(r)
	}
	return name == "localhost" || slices.ContainsFunc(h.Names, func(n string) bool { return strings.EqualFold(n, name) })
}

// Guard refuses requests from this machine that name a host which is not allowed.
func (h TrustedHosts) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromLoopback(r) && !h.Allow(r) {
			h.refuse(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h TrustedHosts) refuse(w http.ResponseWriter, r *http.Request) {
	httpapi.Refuse(w, http.StatusForbidden, fmt.Sprintf(
		"host %.200q is not allowed: use localhost, 127.0.0.1, or a name from --trusted-hosts", r.Host))
}

// localAddr returns the address of this machine that the connection of a request came to.
func localAddr(r *http.Request) netip.Addr {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if at, err := netip.ParseAddrPort(at.String()); err == nil {
			return at.Addr().Unmap()
		}
	}
	return netip.Addr{}
}

// fromLoopback reports whether a request comes from this machine, and not through a proxy on it.
func fromLoopback(r *http.Request) bool {
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// Operators lets callers pass that send the admin token or come from this machine, and refuses all others. A caller
// with a tenant's token is no operator, also on this machine: a gateway on it may pass requests of others on.
// token returns the present token; nil: there is none.
func (h TrustedHosts) Operators(token func() string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sent = strings.TrimSpace(sent)
		_, ofTenant := tenant.TokenID(sent)
		switch {
		case token != nil && strings.EqualFold(scheme, "Bearer") &&
			subtle.ConstantTimeCompare([]byte(sent), []byte(token())) == 1:
			next.ServeHTTP(w, r)
		case !fromLoopback(r) || ofTenant:
			w.Header().Set("WWW-Authenticate", `Bearer realm="binnacle admin"`)
			httpapi.Refuse(w, http.StatusUnauthorized, r.URL.Path+
				" needs the bearer token of --admin-token-file, or a caller on the same machine without a tenant's token")
		case !h.Allow(r):
			h.refuse(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
