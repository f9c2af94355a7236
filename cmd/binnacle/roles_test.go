package main_test

import (
	"context"
	"encoding/json"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// The broker and the fleet as processes of their own: what was acknowledged outlives the broker's death, and the fleet
// goes on when it is back.
func TestBrokerAndFleetCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	launch := func(addr string) (*process, string) {
		p := start(t, "broker", "--kafka", addr, "--data-dir", dir, "--topics=readings", "--partitions=1")
		require.Equal(t, "readings", p.printed(`(?m)^ +topics +(.+)$`))
		require.Equal(t, dir, p.printed(`(?m)^ +data +(\S+)`))
		return p, p.printed(`(?m)^ +kafka +(\S+)`)
	}
	broker, addr := launch("127.0.0.1:0")
	fleet := start(t, "fleet", "--kafka", addr, "--topic=readings", "--fleet=3", "--fleet-interval=20ms",
		"--fleet-tenants=one,two")
	require.Equal(t, "3 trucks, a reading every 20ms each, of the tenants one two in turn",
		fleet.printed(`(?m)^ +fleet +(.+)$`))

	tenants := map[string]bool{}
	read := consumer(t, addr, 0)
	for range 12 {
		var reading struct{ Tenant, Device string }
		require.NoError(t, json.Unmarshal(read().Value, &reading))
		tenants[reading.Tenant] = true
	}
	require.Equal(t, map[string]bool{"one": true, "two": true}, tenants)

	last := read().Offset
	broker.kill()
	broker, addr = launch(addr)
	read = consumer(t, addr, last)
	require.Equal(t, last, read().Offset, "what was acknowledged is there")
	end := logEnd(t, addr)
	soon(t, time.Minute, func() bool { return logEnd(t, addr) > end+12 }, "the fleet goes on")
	fleet.stop(syscall.SIGTERM)
	fleet.clean()
	broker.stop(syscall.SIGINT)
}

// consumer returns the records of the only partition of readings, from an offset on.
func consumer(t *testing.T, addr string, from int64) func() kafka.Message {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{addr}, Topic: "readings", MaxWait: 10 * time.Millisecond})
	require.NoError(t, r.SetOffset(from))
	t.Cleanup(func() { _ = r.Close() })
	return func() kafka.Message {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		m, err := r.ReadMessage(ctx)
		require.NoError(t, err)
		return m
	}
}

func logEnd(t *testing.T, addr string) int64 {
	t.Helper()
	conn, err := kafka.DialLeader(context.Background(), "tcp", addr, "readings", 0)
	require.NoError(t, err)
	defer conn.Close()
	end, err := conn.ReadLastOffset()
	require.NoError(t, err)
	return end
}

// What --print-config prints is a file with the same settings, wherever they came from, and keeps secrets to itself.
func TestPrintConfig(t *testing.T) {
	t.Parallel()
	from := file(t, "from.yaml", "kafka: 127.0.0.1:4\nhold: 5s\ndev:\n  hold: 1d12h\n  lp-tags: [fleet, driver]\n")
	print := func(args ...string) string {
		args = append(args, "--print-config")
		if !envVar.MatchString(args[0]) {
			code, stdout, stderr := inProcess(t, args...)
			require.Zero(t, code, stderr)
			return stdout
		}
		p := run(t, time.Minute, args...)
		require.Zero(t, p.code, p.stderr.String())
		p.clean()
		return p.stdout.String()
	}
	text := print("BINNACLE_MEMORY_MB=512", "BINNACLE_LP_DEVICE_TAG=", "dev", "--config", from, "--fleet=3",
		"--lp-metric=field")
	for _, line := range []string{
		"dev:", "  hold: 1d12h", "  kafka: 127.0.0.1:4", "  memory-mb: 512", `  lp-device-tag: ""`, "  fleet: 3",
		"  lp-metric: field",
		"    - driver", "  future: 10m", "  admin: 127.0.0.1:7071", "  ru-model: step",
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Equal(t, text, print("dev", "--config", file(t, "again.yaml", text)))

	for _, command := range []string{"broker", "emulator", "fleet", "provision", "loadtest", "blogexample", "replay x.csv",
		"chunk x.json", "rollups", "rollups list --from 2026-11-02", "tenant list"} {
		args := strings.Fields(command)
		text := print(args...)
		require.Contains(t, text, args[0]+":\n")
		require.Equal(t, text, print(append(args, "--config", file(t, "settings.yaml", text))...), command)
	}
	for _, args := range [][]string{
		{"provision", "--key=c2VjcmV0"}, {"BINNACLE_KEY=c2VjcmV0", "chunk", "x.json"},
		{"replay", "x.csv", "--config", file(t, "secret.yaml", "key: c2VjcmV0\n")},
	} {
		text := print(args...)
		require.NotContains(t, text, "c2VjcmV0")
		require.Contains(t, text, "  key: REDACTED\n")
	}
}

// One run reports every fault, by the names of the flags.
func TestAllFaultsAreReported(t *testing.T) {
	t.Parallel()
	for command, wrong := range map[string][]string{
		"dev": {
			"--partitions=0", "--kafka-mb=-1", "--fleet=-1", "--fleet-interval=0s", "--hold=-1s", "--future=-1s",
			"--commit-every=0s",
			"--drain-budget=1m", "--max-behind=-1", "--max-writes=0", "--memory-mb=1", "--dead-letters=telemetry",
			"--retention=-1d",
			"--max-months=0", "--query-fanout=0", "--query-memory-mb=0", "--queries-memory-mb=-1", "--query-max-rus=0",
			"--max-queries=0", "--tags-age=0s", "--tags-memory-mb=0", "--assign=3/3",
			"--max-queued=0", "--queue-timeout=0s", "--promql-lookback=0s", "--query-timeout=0s", "--promql-max-samples=0",
			"--promql-memory-mb=0", "--physical-partitions=-1", "--partition-bytes=-1",
		},
		"broker":   {"--partitions=0", "--kafka-mb=-1", "--data-dir="},
		"emulator": {"--physical-partitions=-1", "--partition-bytes=-1", "--data-dir="},
		"fleet":    {"--fleet=-1", "--fleet-interval=1us"},
	} {
		words := make([]string, len(wrong))
		for i, flag := range wrong {
			words[i], _, _ = strings.Cut(flag, "=")
			if command == "fleet" {
				words[i] = map[string]string{"--fleet": "fleet of -1", "--fleet-interval": "1µs"}[words[i]]
			}
		}
		refused(t, append([]string{command}, wrong...), words...)
	}
}

// Every role is a process of its own. Ingesters are killed while devices publish: everything acknowledged is answered,
// once, with its last value, and an answer that lacks something says so.
func TestRolesAsProcesses(t *testing.T) {
	t.Parallel()
	needsFull(t) // TestChaos kills the same roles over a store that fails
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	broker := start(t, "broker", "--kafka=127.0.0.1:0", "--data-dir", dir+"/kafka", "--partitions=4")
	kafkaAt := broker.printed(`(?m)^ +kafka +(\S+)`)
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", dir+"/cosmos", "--unlimited")
	cosmosAt := emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	servers := []string{"--kafka=" + kafkaAt, "--cosmos=" + cosmosAt}

	missing := run(t, time.Minute, append([]string{"ingest", "--check"}, servers...)...)
	require.Equal(t, 1, missing.code)
	require.Contains(t, missing.stdout.String(),
		"missing  cosmos     the database binnacle has no container control: binnacle provision creates it")
	start(t, "provision", "--cosmos="+cosmosAt)
	soon(t, time.Minute, func() bool {
		return run(t, time.Minute, append([]string{"ingest", "--check"}, servers...)...).code == 0
	}, "provision makes what is missing")

	secret := file(t, "secret", "open sesame\n")
	ports := []string{freePort(t), freePort(t), freePort(t)}
	ingester := func(i int) *process {
		p := start(t, append([]string{
			"ingest", "--register", "--hold=500ms", "--session-timeout=6s", "--heads-listen=" + ports[i], "--admin=127.0.0.1:0",
			"--heads-secret-file=" + secret,
		}, servers...)...)
		p.printed(`(?m)^ +heads +(\S+)`)
		member := func() bool { return strings.Contains(p.stderr.String(), "partitions assigned") }
		soon(t, time.Minute, member, "it is in the group")
		return p
	}
	ingesters := []*process{ingester(0), ingester(1), ingester(2)}
	query := start(t, append([]string{
		"query", "--api=127.0.0.1:0", "--admin=127.0.0.1:0", "--heads=" + strings.Join(ports, ","), "--heads-secret-file=" +
			secret,
		"--trusted-proxies=127.0.0.1",
	}, servers...)...)
	asks := &dev{process: query, api: query.printed(`(?m)^ +api +http://(\S+)`),
		admin: query.printed(`(?m)^ +admin +http://(\S+)`)}

	var at atomic.Pointer[string]
	at.Store(&kafkaAt)
	ctx, cancel := context.WithCancel(context.Background())
	published := make(chan table, 1)
	go func() { published <- publishUntil(ctx, &at, mathrand.New(mathrand.NewPCG(seed, 2))) }()
	rnd := mathrand.New(mathrand.NewPCG(seed, 1))
	// Nobody is killed while the group finds together: the embedded broker keeps a member without a connection then
	// until the group does so again.
	settled := func() {
		soon(t, time.Minute, func() bool { return asks.complete("acme") }, "the others have what the one had that is gone")
	}
	for i := range 3 {
		settled()
		time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond) // the moment of the kill is the test's subject
		if i == 1 {
			ingesters[i].stop(syscall.SIGTERM)
		} else {
			ingesters[i].kill()
		}
		settled()
		ingesters[i] = ingester(i)
	}
	settled()
	soon(t, time.Minute, func() bool { return asks.ingestersThatHold() == 3 }, "each ingester reports what it holds")
	ingesters[2].kill() // and stays away
	cancel()
	want := <-published
	require.Greater(t, len(want), 100)
	settled()
	asks.answersInAllFormats("acme", want)
}

// ingestersThatHold returns how many ingesters report partitions to the querier.
func (d *dev) ingestersThatHold() (n int) {
	var body struct {
		Ingesters []struct{ Bins struct{ Partitions []any } }
	}
	resp, err := http.Get("http://" + d.admin + "/api/v1/ingesters")
	require.NoError(d.t, err)
	defer func() { _ = resp.Body.Close() }()
	require.NoError(d.t, json.NewDecoder(resp.Body).Decode(&body))
	for _, i := range body.Ingesters {
		if len(i.Bins.Partitions) > 0 {
			n++
		}
	}
	return n
}

// The small production: all roles in one process on servers of their own, and a token to ask with. A role that is
// started before its servers waits for them.
func TestServe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kafkaAt, cosmosAt := freePort(t), freePort(t)
	serve := start(t, "serve", "--kafka="+kafkaAt, "--cosmos="+cosmosAt, "--register", "--hold=300ms",
		"--api=127.0.0.1:0", "--admin=127.0.0.1:0", "--heads-listen=127.0.0.1:0")
	soon(t, time.Minute, func() bool {
		return strings.Contains(serve.stderr.String(), "waiting for the account")
	}, "it says what it waits for")
	broker := start(t, "broker", "--kafka="+kafkaAt, "--data-dir", dir+"/kafka", "--partitions=2")
	broker.printed(`(?m)^ +kafka +(\S+)`)
	start(t, "emulator", "--cosmos="+cosmosAt, "--data-dir", dir+"/cosmos")
	api := ""
	soon(t, time.Minute, func() bool {
		found := regexp.MustCompile(`(?m)^ +api +(http://\S+)`).FindStringSubmatch(serve.stdout.String())
		if found != nil {
			api = found[1]
		}
		return found != nil
	}, "it runs when its servers do")

	var at atomic.Pointer[string]
	at.Store(&kafkaAt)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	want := publishUntil(ctx, &at, mathrand.New(mathrand.NewPCG(1, 2)))
	var token string
	soon(t, time.Minute, func() bool {
		made := run(t, time.Minute, "tenant", "token", "add", "acme", "--expires=never", "--cosmos="+cosmosAt)
		token = strings.TrimSpace(made.stdout.String())
		return made.code == 0
	}, "the first reading registers the tenant")
	ask := func(bearer string) (status int, body string) {
		r, err := http.NewRequest(http.MethodGet, api+"/api/v1/readings?from=0&strict=true&limit=100000", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+bearer)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	soon(t, time.Minute, func() bool {
		status, body := ask(token)
		var a struct {
			Complete bool
			Readings []json.RawMessage
		}
		require.Equal(t, http.StatusOK, status, body)
		require.NoError(t, json.Unmarshal([]byte(body), &a))
		return a.Complete && len(a.Readings) == len(want)
	}, "every reading is answered")
	set := run(t, time.Minute, "tenant", "set", "acme", "--lookback=25m", "--query-rus-day=5e6",
		"--query-samples=none", "--cosmos="+cosmosAt)
	require.Zero(t, set.code, set.stderr.String())
	require.Regexp(t, `(?m)^acme +\S+ +forever +25m +default +default +default +5000000 +none +default +no$`, set.stdout.String())
	require.Equal(t, set.stdout.String(), run(t, time.Minute, "tenant", "list", "--cosmos="+cosmosAt).stdout.String())
	refused(t, []string{"tenant", "set", "nobody", "--lookback=25m", "--cosmos=" + cosmosAt}, "nobody")
	refused(t, []string{"tenant", "set", "acme", "--cosmos=" + cosmosAt}, "nothing to set")
	status, _ := ask("bn_abcdefghij_ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	require.Equal(t, http.StatusUnauthorized, status)
	serve.stop(syscall.SIGTERM)
}

// complete reports whether an answer is complete now.
func (d *dev) complete(tenant string) bool {
	d.t.Helper()
	resp := d.get(tenant, "/api/v1/readings?from=0&strict=true&timeout=5s&limit=1")
	defer resp.Body.Close()
	var a struct{ Complete bool }
	require.NoError(d.t, json.NewDecoder(resp.Body).Decode(&a))
	return a.Complete
}

// freePort is an address that nobody has taken a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// Heads that other machines reach are not shown to everybody.
func TestHeadsNeedASecret(t *testing.T) {
	t.Parallel()
	refused(t, []string{"ingest", "--heads-listen=0.0.0.0:0", "--admin=127.0.0.1:0"}, "--heads-secret-file",
		"--heads-tls-cert")
	refused(t, []string{"ingest", "--heads-tls-cert=x"}, "--heads-tls-key", "--heads-tls-ca")
	refused(t, []string{"query", "--trusted-proxies=here", "--oidc-issuer=https://login.example"},
		"--trusted-proxies here", "--oidc-audience")
	refused(t, []string{"serve", "--identity=workload", "--key=a2V5", "--azure-account=a"}, "--key",
		"--azure-subscription")
}

// Tokens are made, listed and revoked; what is secret is shown once.
func TestTokens(t *testing.T) {
	t.Parallel()
	emulator := start(t, "emulator", "--cosmos=127.0.0.1:0", "--data-dir", t.TempDir())
	at := "--cosmos=" + emulator.printed(`(?m)^ +endpoint +http://([^/\s]+)`)
	require.Zero(t, run(t, time.Minute, "provision", "--once", at).code)
	refused(t, []string{"tenant", "token", "add", "acme", "--expires=90d", at}, "acme", "tenant add registers it")
	require.Zero(t, run(t, time.Minute, "tenant", "add", "acme", "--retention=400d", at).code)
	refused(t, []string{"tenant", "add", "acme", at}, "registered already")
	refused(t, []string{"tenant", "list", "acmee", at}, "did you mean acme?")
	add := run(t, time.Minute, "tenant", "token", "add", "acme", "--scopes=read,admin", "--expires=90d",
		"--note=Grafana", at)
	require.Zero(t, add.code, add.stderr.String())
	secret := strings.TrimSpace(add.stdout.String())
	require.Regexp(t, `^bn_[a-z2-7]{10}_[A-Z2-7]{26}$`, secret)
	id := strings.Split(secret, "_")[1]
	list := run(t, time.Minute, "tenant", "token", "list", at)
	require.Regexp(t, id+` +acme +read,admin +\S+ +\S+ +good +Grafana`, list.stdout.String())
	require.NotContains(t, list.stdout.String(), strings.Split(secret, "_")[2])
	list = run(t, time.Minute, "tenant", "token", "list", "--json", at)
	require.Regexp(t, `^{"id":"`+id+`","tenant":"acme","scopes":\["read","admin"\],"created":"\S+","expires":"\S+",`+
		`"state":"good","note":"Grafana"}\n$`, list.stdout.String())
	shown := run(t, time.Minute, "tenant", "show", "acme", at)
	require.Regexp(t, `(?m)^retention +default=400d$`, shown.stdout.String())
	require.Zero(t, run(t, time.Minute, "tenant", "token", "revoke", id, at).code)
	require.Regexp(t, id+`.* revoked +Grafana`, run(t, time.Minute, "tenant", "token", "list", "acme",
		at).stdout.String())
	for _, change := range [][]string{{"set", "acme", "--tag=plan=gold"}, {"suspend", "acme", "--reason=late"},
		{"resume", "acme"}, {"pin", "acme", "--keep"}} {
		p := run(t, time.Minute, append(append([]string{"tenant"}, change...), "--json", at)...)
		require.Zero(t, p.code, p.stderr.String())
		require.Regexp(t, `^{"tenant":"acme",.*"tags":{"plan":"gold"},.*"placement":"shared, 4 keys"}\n$`, p.stdout.String())
		require.Equal(t, change[0] == "suspend", strings.Contains(p.stdout.String(), `"reason":"late"`))
	}
	explained := run(t, time.Minute, "tenant", "explain", "acme", "--json", at)
	require.Contains(t, explained.stdout.String(), `{"tenants":[{"tenant":"acme","pin":{"keep":true},"epochs":[`)
	refused(t, []string{"tenant", "token", "add", "Acme", "--expires=never", at}, "Acme")
	refused(t, []string{"tenant", "token", "add", "acmee", "--expires=never", at}, "did you mean acme?")
	refused(t, []string{"tenant", "token", "add", "acme", "--scopes=all", "--expires=never", at}, "all")
	refused(t, []string{"tenant", "token", "add", "acme", at}, "--expires")
	refused(t, []string{"tenant", "token", "add", "acme", "--expires=soon", at}, "90d, or never")
	refused(t, []string{"tenant", "token", "revoke", "nobody", at}, "nobody")
	done := run(t, time.Minute, "actions", "--tenant=acme", at)
	require.Regexp(t, `\S+@\S+ +token add +`+id+` +acme +expires=\S+ note=Grafana scopes=read,admin +done`, done.stdout.String())
	done = run(t, time.Minute, "actions", "--json", at)
	require.Regexp(t, `"verb":"token revoke","object":"`+id+`","tenant":"acme","outcome":"done"`, done.stdout.String())
	require.Regexp(t, `"verb":"token revoke","object":"nobody","outcome":"revoke token nobody`, done.stdout.String())
	require.Regexp(t, `"verb":"container create","object":"chunks-`, done.stdout.String())
	require.NotContains(t, done.stdout.String(), strings.Split(secret, "_")[2])
}
