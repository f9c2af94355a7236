package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// file writes a file of the test.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// The error about --rows shows which value counted: flags go before the environment, that before the file, that
// before the default.
func TestPrecedenceOfSettings(t *testing.T) {
	flat := file(t, "flat.yaml", "rows: -3\n")
	section := file(t, "section.yaml", "rows: -9\nchunk:\n  rows: -4\n")
	other := file(t, "other.yaml", "replay:\n  rate: -9\ndev:\n  hold: 1d\n")
	document := file(t, "document.json", "{}")
	const env, flag = "BINNACLE_ROWS=-2", "--rows=-1"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{flag}, "--rows -1 "},
		{[]string{env, flag}, "--rows -1 "},
		{[]string{env, flag, "--config", flat}, "--rows -1 "},
		{[]string{flag, "--config", section}, "--rows -1 "},
		{[]string{env}, "--rows -2 "},
		{[]string{env, "--config", flat}, "--rows -2 "},
		{[]string{env, "--config", section}, "--rows -2 "},
		{[]string{env, "BINNACLE_CONFIG=" + section}, "--rows -2 "},
		{[]string{"--config", flat}, "--rows -3 "},
		{[]string{"BINNACLE_CONFIG=" + flat}, "--rows -3 "},
		{[]string{"--config", section}, "--rows -4 "},
		{[]string{"--config", other}, document}, // the default is no fault: the file is
	} {
		env, flags := split(c.args)
		for _, variable := range env {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, value)
		}
		refused(t, append([]string{"chunk", document}, flags...), c.want)         // behind the argument
		refused(t, append(append([]string{"chunk"}, flags...), document), c.want) // before it
		for _, variable := range env {
			name, _, _ := strings.Cut(variable, "=")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	refused(t, []string{"--config", flat, "chunk", document}, "--rows -3 ") // before the subcommand
}

func split(args []string) (env, flags []string) {
	for len(args) > 0 && envVar.MatchString(args[0]) {
		env, args = append(env, args[0]), args[1:]
	}
	return env, args
}

func TestWrongSettings(t *testing.T) {
	t.Parallel()
	for text, words := range map[string][]string{
		"hodl: 5s\n":              {"hodl"},
		"dev:\n  hodl: 5s\n":      {"dev", "hodl"},
		"replay:\n  hold: 5s\n":   {"replay", "hold"},
		"hold: 5x\n":              {"--hold", "5x"},
		"hold: 30\n":              {"--hold", "30"},
		"fleet: many\n":           {"--fleet", "many"},
		"api:\n  port: 7070\n":    {"api"},
		"api: [\n":                {"line 1"},
		"- api: 127.0.0.1:7070\n": {"line 1"},
		"dev: 5s\n":               {"dev"},
	} {
		path := file(t, "settings.yaml", text)
		refused(t, []string{"dev", "--data-dir", t.TempDir(), "--config", path}, words...)
	}
	refused(t, []string{"dev", "--config", "no/such.yaml"}, "no/such.yaml")
}

// The same setting of dev by a flag, a variable and a file; with a duration in days.
func TestDurationInDays(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"flag":        {"--future=1d"},
		"two words":   {"--future", "1d"},
		"environment": {"BINNACLE_FUTURE=1d"},
		"file":        {"--config", file(t, "settings.yaml", "dev:\n  future: 1d\nfleet: 20\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDev(t, t.TempDir(), append(args, "--fleet=0")...)
			now := time.Now().UnixMilli()
			early := row{device: "m1", ts: now + 23*3_600_000}
			late := row{device: "m1", ts: now + 25*3_600_000}
			want := table{early: {"v": 1.5}}
			d.publishTable("acme", table{early: {"v": 1.5}, late: {"v": 2.5}})
			d.answers("acme", want, everything+"&to=9999999999999")
			soon(t, time.Minute, func() bool { return len(d.deadLetters()) == 1 }, "a dead letter")
			require.Equal(t, "future", header(d.deadLetters()[0], "binnacle-reason"))
		})
	}
}

// What is set for dev is set for what it runs.
func TestRetentionOfNewTenants(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--retention=2d")
	now := time.Now().UnixMilli()
	kept := row{device: "m1", ts: now - 86_400_000}
	d.publishTable("acme", table{kept: {"v": 1.5}, row{device: "m1", ts: now - 4*86_400_000}: {"v": 2.5}})
	d.answers("acme", table{kept: {"v": 1.5}}, everything)
	soon(t, time.Minute, func() bool { return len(d.deadLetters()) == 1 }, "a dead letter")
	require.Equal(t, "expired", header(d.deadLetters()[0], "binnacle-reason"))
}

// Of a tenant with a class by tag the devices that have the tag keep their readings, and nobody else does.
func TestRetentionByTag(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=100ms")
	now := time.Now().UnixMilli()
	old := now - 5*86_400_000
	for device, site := range map[string]string{"m1": "oslo", "m2": "bergen"} {
		for _, ts := range []int64{old, now} {
			d.publish(kafka.Message{Value: fmt.Appendf(nil,
				`{"tenant":"acme","device":%q,"ts":%d,"tags":{"site":%q},"values":{"v":1.5}}`, device, ts, site)})
		}
	}
	one := map[string]any{"v": 1.5}
	all := table{{device: "m1", ts: old}: one, {device: "m1", ts: now}: one, {device: "m2", ts: old}: one,
		{device: "m2", ts: now}: one}
	d.answers("acme", all, everything)
	d.stored("acme")
	set := func(retention string, more ...string) *process {
		return run(t, time.Minute, append([]string{"tenant", "set", "acme", "--cosmos", d.cosmos, "--retention", retention},
			more...)...)
	}
	require.Contains(t, set("{site=oslo=2d").stderr.String(), "{TAG=VALUE}")
	const short = "{site=oslo}=forever,default=2d"
	p := set(short)
	require.Equal(t, 1, p.code)
	require.Regexp(t, `nothing is changed: Days before .* of all other devices are hidden .* repeat with --confirm acme`,
		p.stderr.String())
	found := regexp.MustCompile(`(?m)^1 device has readings of such days, from .*, in chunks-\d{4}-\d\d: 1 chunks of .*\.$`)
	soon(t, time.Minute, func() bool { // the catalog has the tags some moments after the store has the readings
		p = set(short, "--dry-run")
		require.Zero(t, p.code, p.stderr.String())
		return found.MatchString(p.stdout.String())
	}, "the device of the other site")
	explain := func(device ...string) string {
		p := run(t, time.Minute, append([]string{"tenant", "retention", "explain", "acme", "--cosmos", d.cosmos},
			device...)...)
		require.Zero(t, p.code, p.stderr.String())
		return p.stdout.String()
	}
	require.Equal(t, "The retention is forever.\n", explain())
	p = set(short, "--confirm=acme")
	require.Zero(t, p.code, p.stderr.String())
	require.Contains(t, p.stdout.String(), "another tenant set --retention undoes that")
	require.Regexp(t, `The retention is {site=oslo}=forever,default=2d from \S+Z on\.`, explain())
	require.Regexp(t, `No day is gone\.\n.*\nFrom \S+ on its class is default=2d, and days before`, explain("m2"))
	require.Regexp(t, `on its class is {site=oslo}=forever`, explain("m1"))
	d.answers("acme", all, everything)
	p = set("forever")
	require.Zero(t, p.code, p.stderr.String())
	require.True(t, strings.HasPrefix(explain("m2"), "The class of the device is default=forever.\nNo day is gone.\n"))
	refused(t, []string{"tenant", "retention", "confirm", "acme", "--cosmos", d.cosmos}, "no such device waits")
}

// A value may begin with a minus, without a command there is the help, and a variable that is no flag's is noticed.
func TestArguments(t *testing.T) {
	t.Parallel()
	p := run(t, time.Minute)
	require.Equal(t, 1, p.code)
	require.Contains(t, p.stdout.String(), "Usage: binnacle <command>")
	for _, args := range [][]string{
		{"gaps", "m1", "--from", "-1d", "--to", "-2h", "--api=127.0.0.1:1"},
		{"tenant", "export", "acme", "--out", filepath.Join(t.TempDir(), "x"), "--from", "-1d", "--to", "now",
			"--api=127.0.0.1:1"},
		{"audit", "--from", "-1d", "--to", "2026-12-24T08:00:00Z", "--cosmos=127.0.0.1:1"},
		{"rollups", "list", "--from", "-1d", "--to", "-.5d", "--cosmos=127.0.0.1:1"},
	} {
		p := run(t, time.Minute, args...)
		require.Equal(t, 1, p.code)
		require.Contains(t, p.stderr.String(), "127.0.0.1:1", args)
	}
	require.Contains(t, run(t, time.Minute, "gaps", "m1", "--from", "--to=now").stderr.String(), "--from")
	p = run(t, time.Minute, "BINNACLE_COSMOSS=x", "BINNACLE_SERVICE_HOST=x", "BINNACLE_PORT_7070_TCP=x",
		"BINNACLE_QUERY_SERVICE_PORT_API=7070", "BINNACLE_COSMOS=x", "version")
	require.Zero(t, p.code)
	require.Contains(t, p.stderr.String(), "variable=BINNACLE_COSMOSS did_you_mean=BINNACLE_COSMOS\n")
	require.Equal(t, 1, strings.Count(p.stderr.String(), "level=WARN"), p.stderr.String())
}

// Listening on all interfaces, it says addresses that can be connected to.
func TestListeningOnAllInterfaces(t *testing.T) {
	t.Parallel()
	const all = "0.0.0.0:0"
	d := startDev(t, t.TempDir(), "--fleet=0", "--kafka", all, "--cosmos", all, "--api", all, "--admin", all)
	for _, addr := range []string{d.kafka, d.cosmos, d.api, d.admin} {
		require.Regexp(t, `^127\.0\.0\.1:[1-9]`, addr)
	}
	want := table{{device: "m1", ts: noon()}: {"v": 1.5}}
	d.publishTable("acme", want)
	d.answers("acme", want, everything)
	require.NotContains(t, d.stdout.String(), "[::]")
	require.NotContains(t, d.stdout.String(), "0.0.0.0")
}

// The file that the page shows is accepted, and its values count.
func TestSettingsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operate/settings.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, block)
	settings := file(t, "settings.yaml", string(block[1]))
	refused(t, []string{"chunk", "no/such.json", "--config", settings}, "no/such.json")
	lines := file(t, "trucks.lp", fmt.Sprintf("readings,name=m1,fleet=East,axle=rear v=1.5 %d000000\n", noon()))
	d := startDev(t, t.TempDir(), "--config", settings, "--fleet=0", "--hold=100ms")
	p := run(t, time.Minute, "replay", lines, "--config", settings, "--tenant=acme", "--kafka", d.kafka)
	require.Zero(t, p.code, p.stderr.String())
	d.answers("acme", table{{device: "m1", ts: noon(), labels: `{"axle":"rear"}`}: {"readings_v": 1.5}}, everything)
	d.stored("acme") // and so the catalog has it
	require.Contains(t, d.body("acme", "/api/v1/devices"), `"tags":{"fleet":"East"}`)
	require.NotContains(t, d.stderr.String(), "level=INFO", "nothing below a warning is logged")
}
