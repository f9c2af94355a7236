package architecture_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// For each rule a source that breaks it, and what is said about it. Whoever loosens a rule makes one of these pass.
func TestEachRuleFindsItsFault(t *testing.T) {
	for name, c := range map[string]struct {
		path, source, fault string
	}{
		"a package without a layer":      {"internal/new", ``, "belongs to no layer: give it one"},
		"an import without a layer":      {"ingest", `import _ "binnacle/internal/new"`, "it belongs to no layer"},
		"an import that points up":       {"binning", `import _ "binnacle/internal/store"`, "domain may not know contract"},
		"from the protocol to a service": {"ingest/worker", `import _ "binnacle/ingest"`, "protocol may not know services"},
		"from the domain to the protocol": {"ingest/decode", `import _ "binnacle/ingest/worker"`,
			"domain may not know protocol"},
		"a service of another": {"query/httpapi", `import _ "binnacle/ingest"`, "services may not know services"},
		"an adapter of another": {"internal/cosmos", `import _ "binnacle/internal/lab/broker"`,
			"adapters may not know adapters"},
		"a service and an adapter": {"internal/lab/fleet", `import _ "binnacle/internal/cosmos"`,
			"services know stores and brokers by their contracts"},
		"a service and the emulator": {"query", `import _ "binnacle/internal/lab/emulator/sql"`,
			"services know stores and brokers by their contracts"},
		"the wiring and a tool": {"internal/app", `import _ "binnacle/internal/ops/replay"`,
			"wiring may not know tools"},
		"the SDK elsewhere": {"internal/lab/loadtest", `import _ "github.com/Azure/azure-sdk-for-go/sdk/azcore"`,
			"only internal/cosmos, internal/lab/blogexample may"},
		"Kafka's client elsewhere": {"query", `import _ "github.com/segmentio/kafka-go"`, "only internal/kafka"},
		"Kafka's client, below": {"internal/provision", `import _ "github.com/segmentio/kafka-go/sasl/plain"`,
			"only internal/kafka"},
		"the broker's library": {"internal/app", `import _ "github.com/twmb/franz-go/pkg/kfake"`,
			"only internal/lab/broker may"},
		"the flags' library": {"internal/app", `import _ "github.com/alecthomas/kong"`, "only cmd may"},
		"a tree outside": {"internal/app", `import _ "github.com/google/btree"`,
			"only internal/lab/emulator/kv may"},
		"a parser outside": {"query", `import _ "github.com/alecthomas/participle/v2"`,
			"only internal/lab/emulator/sql may"},
		"tests' library in the code": {"query", `import _ "github.com/stretchr/testify/require"`, "it is for tests"},
		"tests' package in the code": {"ingest", `import _ "binnacle/internal/store/storetest"`, "it is for tests"},
		"what must stand alone": {"internal/lab/emulator", `import _ "binnacle/internal/telemetry"`,
			"internal/lab/emulator stands alone"},
		"and all below it": {"internal/lab/emulator/sql", `import _ "binnacle/binning"`,
			"internal/lab/emulator/sql stands alone"},
		"a tree in its house": {"internal/lab/emulator", `import _ "github.com/google/btree"`,
			"only internal/lab/emulator/kv may"},
		"a leaf that knows the engine": {"internal/lab/emulator/budget", `import _ "binnacle/internal/lab/emulator/engine"`,
			"internal/lab/emulator/budget stands alone"},
		"the engine and its house": {"internal/lab/emulator/engine", `import _ "binnacle/internal/lab/emulator"`,
			"internal/lab/emulator/engine stands alone"},
		"the engine and HTTP": {"internal/lab/emulator/engine", `import _ "net/http"`,
			"internal/lab/emulator/engine may not"},
		"value types that know more": {"internal/telemetry", `import _ "binnacle/sharding"`,
			"internal/telemetry stands alone"},

		"the domain and files":    {"binning", `import _ "os"`, "not known to have none"},
		"the domain and contexts": {"sharding", `import _ "context"`, "not known to have none"},
		"the domain and logs":     {"ingest/decode", `import _ "log/slog"`, "not known to have none"},
		"the domain and chance":   {"binning/chunk", `import _ "math/rand/v2"`, "not known to have none"},
		"the protocol and metrics": {"ingest/worker", `import _ "github.com/prometheus/client_golang/prometheus"`,
			"not known to have none"},
		"the domain and a new library":   {"sharding", `import _ "example.org/library"`, "not known to have none"},
		"the domain, a go statement":     {"binning", `func f() { go f() }`, "starts a goroutine"},
		"the domain, a function literal": {"binning", `func f() { go func() {}() }`, "starts a goroutine"},
		"the domain, a wait group": {"binning", `import "sync"
			func f(wg *sync.WaitGroup) { wg.Add(1) }`, "uses sync.WaitGroup"},
		"the domain, a method that starts one": {"binning/chunk", `type group interface{ Go(func()) }
			func f(wg group) { wg.Go(func() {}) }`, "starts a goroutine by a method Go"},
		"the domain, a wait group that is kept": {"sharding", `import "sync"
			type t struct{ wg sync.WaitGroup }`, "uses sync.WaitGroup"},
		"the domain, a select": {"binning", `func f() { select {} }`, "waits in a select"},
		"the protocol, a clock": {"ingest/worker", `import "time"
			var f = time.Now`, "uses time.Now"},
		"the domain, a clock by another name": {"ingest/worker", `import clock "time"
			func f(t clock.Time) clock.Duration { return clock.Since(t) }`, "uses time.Since"},
		"the domain, a clock without a name": {"ingest/worker", `import . "time"
			var f = Now`, "imported with a dot"},
		"the domain, a timer": {"ingest/decode", `import "time"
			func f() { time.Sleep(1) }`, "uses time.Sleep"},
		"the domain, the terminal": {"internal/charges/ru", `import "fmt"
			func f() { fmt.Println() }`, "uses fmt.Println"},
		"the domain, the terminal, plainly": {"internal/charges/ru", `func f() { println() }`, "writes to the terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := NewPackage(c.path, map[string]string{"a.go": "package a\n" + c.source})
			require.NoError(t, err)
			faults := Faults([]Package{p})
			require.Len(t, faults, 1, "%v", faults)
			require.Contains(t, faults[0], c.fault)
			require.Contains(t, faults[0], c.path)
		})
	}
}

// What looks like a fault and is none.
func TestRulesAllow(t *testing.T) {
	for _, c := range []struct{ path, source string }{
		{"ingest", `import _ "binnacle/ingest/worker"`},
		{"ingest/worker", `import _ "binnacle/internal/store"`},
		{"ingest/worker", `import "sync"; var mu sync.Mutex`},
		{"query/httpapi", `import _ "binnacle/query"`},
		{"internal/app", `import _ "binnacle/internal/cosmos"`},
		{"internal/app", `import _ "binnacle/ingest"`},
		{"internal/control", `import _ "binnacle/internal/store"`},
		{"internal/store/storetest", `import _ "github.com/stretchr/testify/require"`},
		{"cmd/binnacle", `import _ "binnacle/internal/lab/loadtest"`},
		{"binning", `import "time"; var d time.Duration; type Go func(); func f(g Go) { g() }`},
		{"binning", `type clock struct{}; func (clock) Now() int { return 0 }; var time clock; var n = time.Now()`},
		{"binning/chunk", `import "sync"; var pool sync.Pool`},
		{"ingest/worker", `import "sync/atomic"; var n atomic.Int64`},
		{"query", `import "time"; func f() { go f(); _ = time.Now() }`},
	} {
		p, err := NewPackage(c.path, map[string]string{"a.go": "package a\n" + c.source})
		require.NoError(t, err)
		require.Empty(t, Faults([]Package{p}))
	}
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", MaxColumns)
	source := "package a\n\n// " + long + "\nvar a = `" + long + "\n" + long + "`\n\t" + long[:119] + "\n\t" + long +
		"\nvar b = `y` // " + long
	require.Equal(t, []string{"a.go:3: 123 columns", "a.go:7: 121 columns"}, LongLines("a.go", source))
	require.Empty(t, LongLines("a.go", strings.Repeat("ä", MaxColumns)), "columns, not bytes")
}

func TestLogKeys(t *testing.T) {
	found, err := LogKeys("a.go", `package a
func f() { log.Info("x", "err", err); log.Warn("err", "error", err); other("x", "err", err) }`)
	require.NoError(t, err)
	require.Equal(t, []string{`a.go:2:26: log key "err": errors have the key "error"`}, found)
}
