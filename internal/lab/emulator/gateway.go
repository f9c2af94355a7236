// Package emulator is an embedded Cosmos DB for NoSQL. It speaks the REST protocol of the official
// SDKs, keeps its data on disk, and models what makes partitions hot: items are placed by effective
// partition key in physical partitions, every operation is charged request units, and every physical
// partition has a budget of them per second, beyond which it answers 429.
//
// A Server is an http.Handler; Transport reaches it inside the process without a socket. It refuses what it
// does not support with 400 or 501, naming the construct. Package ru models the charges.
// docs/reference/emulator.md lists what is modelled, what is not, and the layout of the data on disk.
//
// It is for any user of Cosmos DB: it must not know anything of telemetry.
package emulator

import (
	"net/http"
	"strings"

	"binnacle/internal/lab/emulator/refusal"
)

// RoutingGateway serves what the Server does, with the id rules of the service's routing gateway, which
// most accounts answer through: an item may be created with any id, but one whose id ends in a blank or
// holds % / \ or # is out of reach by its path (401, its signature never matches there), as is one with
// a control character (400). Source: the id encoding tests of azcosmos, which pin the rules of both
// gateways.
func (s *Server) RoutingGateway() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := routable(r); f != nil {
			writeRefusal(w, r, f)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// ComputeGateway serves what the Server does, with the id rules of the service's compute gateway: every
// id is within reach. It names itself in the account document, whatever Config.Advertise says of the
// routing gateway. The Server itself has the same rules.
func (s *Server) ComputeGateway() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, "") })
}

func routable(r *http.Request) *refusal.Error {
	if !strings.Contains(r.URL.EscapedPath(), "%") {
		return nil
	}
	rt, err := parseRoute(r.URL)
	if err != nil {
		return refusal.Of(err)
	}
	switch {
	case strings.ContainsFunc(rt.id, func(c rune) bool { return c < ' ' }):
		return refusal.BadRequest(
			"the id %q has a control character, which the routing gateway does not take in a path", rt.id)
	case strings.HasSuffix(rt.id, " ") || strings.ContainsAny(rt.id, `%/\#`):
		return refusal.Unauthorized(
			`the routing gateway cannot match the signature of an id that ends in a blank or holds % / \ or #`)
	}
	return nil
}
