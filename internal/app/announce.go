package app

import (
	"fmt"
	"strings"

	"binnacle/internal/cosmosemu"
)

// announce prints where everything is and what to try first. Every line that begins with curl is a command that works
// from now on.
func (d *dev) announce() {
	api := "http://" + reachable(d.api)
	newest := "from=0&order=desc&limit=5"
	if d.cfg.Fleet > 0 {
		newest = "device=truck-0000&metric=velocity&from=-1m&order=desc&limit=5"
	}
	curl := func(path string) string { return fmt.Sprintf("curl -H 'X-Scope-OrgID: acme' '%s%s'", api, path) }
	var b strings.Builder
	fmt.Fprintf(&b, "binnacle dev\n")
	fmt.Fprintf(&b, "  kafka   %s  topics %s and %s, no login\n", d.broker.Addr(), Topic, DeadLetters)
	fmt.Fprintf(&b, "  cosmos  http://%s/  key %s  page /_emulator\n", reachable(d.cosmos), cosmosemu.Key)
	fmt.Fprintf(&b, "  api     %s  tenant in the header X-Scope-OrgID\n", api)
	fmt.Fprintf(&b, "  admin   http://%s  /metrics /healthz /readyz /debug/pprof/\n", reachable(d.admin))
	fmt.Fprintf(&b, "  data    %s\n", d.cfg.DataDir)
	if d.cfg.Fleet > 0 {
		fmt.Fprintf(&b, "  fleet   %d trucks, a reading a second each, half of them of tenant acme, half of globex\n", d.cfg.Fleet)
	}
	fmt.Fprintf(&b, "\nTry:\n")
	fmt.Fprintln(&b, curl("/api/v1/devices"))
	fmt.Fprintln(&b, curl("/api/v1/metrics"))
	fmt.Fprintln(&b, curl("/api/v1/readings?"+newest))
	fmt.Fprintln(&b, curl("/api/v1/readings?from=-10s&format=csv"))
	fmt.Fprintf(&b, "\nCtrl-C stops it; what was published stays in %s.\n", d.cfg.DataDir)
	fmt.Fprint(d.cfg.Stdout, b.String())
	d.announced.Store(true)
}
