package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the guide to tenants says is typed as it stands, beside dev, and shows what the guide promises.
func TestTenantsGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/operate/tenants.md")
	require.NoError(t, err)
	d := startDev(t, t.TempDir(), guideFlags(t, "operate/tenants.md", "")...)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(program, filepath.Join(dir, "binnacle")))
	shell := openTerminal(t, dir)
	shell.run("export PATH=.:$PATH BINNACLE_KAFKA=" + d.kafka + " BINNACLE_COSMOS=" + d.cosmos + " BINNACLE_API=" + d.api)
	// The guide's reader waits for a while; a test waits for what shall happen.
	const refused = "curl -s -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7070/api/v1/devices"
	typed := strings.NewReplacer("sleep 5\n", "until "+refused+" | grep -q suspended; do sleep 0.1; done\n",
		"127.0.0.1:7070", d.api, "127.0.0.1:7071", d.admin)
	var said strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		// once more for addresses in what was put in
		said.WriteString(shell.run(typed.Replace(typed.Replace(block[1]))) + "\n")
	}
	text := said.String()
	for _, want := range []string{
		`(?m)^acme +\S+ +forever`,
		`(?m)^\S+Z,truck-7,21.5$`,
		`(?m)^display-name +Acme Freight$`, `(?m)^tag +plan=gold$`, `(?m)^query-rate +20$`, `(?m)^retention +default=400d$`,
		`"display_name":"Acme Freight","contact":"fleet@acme.example","tags":{"plan":"gold"}`,
		`(?m) +acme +read +\S+ +\S+ +good +Grafana$`,
		`(?m)^nobody +[\d,]+`, `(?m)^request units +[\d,]+$`,
		`tenant acme is suspended since \S+: the contract has ended: mail billing@example.com`,
		`"query-rate":"50"`, `"tags":{"plan":"silver"}`,
		`operator at 127.0.0.1 by dev@\S+ +tenant set +acme`,
		`"device":"truck-7","retention":\["`, `{"places":\[`,
		`"device":"truck-7","to":"2026-01-01","by":"operator at 127.0.0.1 by dev@\S+","at":"\S+","state":"hidden"`,
		`{"erasures":\[{"id":"`, `operator at 127.0.0.1 by dev@\S+ +tenant erase +\S+ +acme`,
		`queries leave the readings out`,
		`(?m)^{"tenant":"acme","device":"truck-7","ts":"\S+Z","values":{"speed":21.5}}$`,
	} {
		require.Regexp(t, want, text)
	}
	require.NotRegexp(t, `(?m)^tag +region`, text)
	rows := `curl -s -H "X-Scope-OrgID: acme" "http://` + d.api + `/api/v1/readings?from=-1h&format=csv"`
	shell.run("while " + rows + " | grep truck-7; do sleep 0.1; done")
}
