// Package architecture checks the architecture: which packages may import which, what the domain may not use, and the
// rules that all sources keep. docs/ARCHITECTURE.md draws the layers.
//
// Rules are functions from packages to faults, so that tests can show a package that breaks each rule.
package architecture_test

import (
	"fmt"
	"slices"
	"strings"
)

// layer is a part of the project. Its packages may import those of the layers below it, and of their own layer if
// peers is set.
type layer struct {
	name  string
	peers bool
	pure  bool // no I/O, clock, log, goroutine or metrics
	// folders stand for everything below them. Of all folders of all layers that fit, the longest one counts.
	folders []string
}

// layers, from the top down.
var layers = []layer{
	{"entry", false, false, []string{"cmd"}},
	{"tools", false, false, []string{
		"internal/lab/loadtest", "internal/lab/blogexample", "internal/lab/xray", "internal/lab/planner",
		"internal/ops/replay", "internal/ops/audit",
	}},
	{"wiring", true, false, []string{"internal/app"}},
	{"operators", true, false, []string{"internal/ops"}},
	{"services", false, false, []string{"ingest", "query", "internal/provision", "internal/rollups",
		"internal/lab/fleet", "internal/ops/erase", "internal/ops/tenantcopy"}},
	{"adapters", false, false, []string{"internal/cosmos", "internal/headhttp", "internal/schemaregistry",
		"internal/lab/emulator", "internal/lab/broker", "internal/ops/queryclient"}},
	// It speaks of what the contract defines.
	{"protocol", true, true, []string{"ingest/worker", "ingest/admit", "ingest/bins", "ingest/write",
		"ingest/catalogupdates"}},
	{"contract", true, false, []string{"internal/store", "internal/charges/purpose", "internal/tenant", "internal/stream",
		"internal/erasure", "internal/catalog/catalogcache", "internal/control", "internal/kafka", "internal/text/progress",
		"internal/retry", "internal/settings", "internal/tenant/access", "internal/heat/heatlog", "ingest/journal/spill"}},
	{"domain", true, true, []string{
		"binning", "sharding", "ingest/decode", "ingest/journal", "ingest/queue", "internal/telemetry", "internal/catalog",
		"internal/charges", "internal/heat", "internal/stream/deadletter", "internal/stream/topics",
		"internal/text", "internal/wire",
	}},
	{"tests", true, false, []string{"internal/check"}},
}

// only lists imports with their permitted importers. The blog example measures a published data model with the SDK's
// own client.
var only = []struct {
	path      string
	importers []string
}{
	{"github.com/Azure/azure-sdk-for-go", []string{"internal/cosmos", "internal/lab/blogexample"}},
	{"github.com/prometheus/prometheus", []string{"query/prom", "query/httpapi"}}, // httpapi: regular expressions alone
	{"github.com/twmb/franz-go", []string{"internal/lab/broker"}},
	{"github.com/segmentio/kafka-go", []string{"internal/kafka", "ingest"}},
	{"github.com/google/btree", []string{"internal/lab/emulator/kv"}},
	{"github.com/alecthomas/participle/v2", []string{"internal/lab/emulator/sql"}},
	{"github.com/alecthomas/kong", []string{"cmd"}},
	{"github.com/coreos/go-oidc/v3", []string{"internal/tenant/access"}},
	{"github.com/cenkalti/backoff/v5", []string{"internal/retry"}},
	{"github.com/parquet-go/parquet-go", []string{"query/httpapi"}},
	{"net/http/pprof", []string{"internal/app"}},
}

// never lists imports that folders may not have though their layer may. The emulator's engine does not know HTTP.
var never = map[string][]string{
	"internal/lab/emulator/engine": {"net/http"},
}

// alone lists folders that may import nothing of the project but the listed folders and themselves. The longest
// matching folder counts.
var alone = map[string][]string{
	"internal/lab/emulator": {"sharding/epk", "internal/charges/ru", "internal/text/report", "internal/wire/jsonbody"},
	"internal/lab/emulator/engine": {
		"sharding/epk", "internal/charges/ru", "internal/lab/emulator/budget", "internal/lab/emulator/index",
		"internal/lab/emulator/jsonvalue", "internal/lab/emulator/kv",
		"internal/lab/emulator/patch", "internal/lab/emulator/refusal", "internal/lab/emulator/schema",
		"internal/lab/emulator/sql",
	},
	"internal/lab/emulator/patch": {
		"internal/lab/emulator/jsonvalue", "internal/lab/emulator/refusal", "internal/lab/emulator/schema",
		"internal/lab/emulator/sql",
	},
	"internal/lab/emulator/schema": {
		"sharding/epk", "internal/lab/emulator/index", "internal/lab/emulator/jsonvalue",
		"internal/lab/emulator/refusal", "internal/lab/emulator/sql",
	},
	"internal/lab/emulator/index": {
		"internal/lab/emulator/jsonvalue", "internal/lab/emulator/refusal", "internal/lab/emulator/sql",
	},
	"internal/lab/emulator/refusal":   {"internal/lab/emulator/jsonvalue", "internal/lab/emulator/sql"},
	"internal/lab/emulator/sql":       {"internal/lab/emulator/jsonvalue"},
	"internal/lab/emulator/budget":    {},
	"internal/lab/emulator/kv":        {},
	"internal/lab/emulator/fault":     {},
	"internal/lab/emulator/jsonvalue": {},
	"internal/lab/broker":             {},
	"internal/kafka": {"internal/retry", "internal/settings", "internal/store", "internal/stream/topics",
		"internal/wire/bytesread"},
	"internal/text/progress":      {},
	"internal/retry":              {},
	"ingest/journal/spill":        {},
	"internal/text/nearest":       {},
	"internal/text/pattern":       {},
	"internal/text/duration":      {"internal/telemetry"},
	"internal/wire/bytesread":     {},
	"internal/wire/jsonbody":      {},
	"internal/wire/jsonscan":      {},
	"internal/wire/jsontext":      {"internal/telemetry"},
	"internal/stream/deadletter":  {"ingest/decode"},
	"internal/text/recent":        {},
	"internal/text/report":        {},
	"internal/settings":           {"internal/text/duration"},
	"internal/telemetry":          {},
	"internal/stream/topics":      {"internal/telemetry"},
	"sharding/epk":                {},
	"internal/charges/ru":         {},
	"internal/check/architecture": {},
	"internal/check/deploy":       {},
}

// pure lists the imports of a pure layer besides packages of the project. A name that ends in a slash includes
// everything below it. All other imports are faults: I/O, clocks, logs, goroutines and metrics come in many packages.
var pure = []string{
	"bytes", "cmp", "container/", "crypto/sha256", "encoding", "encoding/",
	"errors", "fmt", "hash/", "io", "iter", "maps", "math",
	"math/big", "math/bits", "mime",
	"reflect", "regexp", "regexp/syntax", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "text/tabwriter",
	"time", "unicode", "unicode/", "unique",
	"github.com/influxdata/line-protocol/v2/", "github.com/klauspost/compress/", "github.com/twmb/murmur3",
	"github.com/valyala/fastjson", "github.com/rivo/uniseg", "github.com/hamba/avro/v2", "github.com/fxamacker/cbor/v2",
	"google.golang.org/protobuf/encoding/protowire",
}

// Faults returns the broken rules, a line each.
func Faults(packages []Package) []string {
	var all []string
	for _, p := range packages {
		at := layerOf(p.Path)
		if at.layer < 0 {
			all = append(all, p.Path+" belongs to no layer: give it one")
			continue
		}
		for _, path := range p.Imports() {
			all = append(all, importFaults(p.Path, at, path)...)
		}
		if layers[at.layer].pure {
			all = append(all, impurities(p)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// importFaults returns the rules that one import breaks.
func importFaults(from string, at layerRef, path string) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s imports %s: %s", from, path, fmt.Sprintf(format, args...)))
	}
	for _, o := range only {
		if within(path, o.path) && !anyWithin(from, o.importers) {
			fault("only %s may", strings.Join(o.importers, ", "))
		}
	}
	if forTests(path) && !forTests(from) {
		fault("it is for tests")
	}
	for dir, paths := range never {
		if within(from, dir) && anyWithin(path, paths) {
			fault("%s may not", dir)
		}
	}
	to, ours := folder(path)
	name := layers[at.layer].name
	if !ours {
		if layers[at.layer].pure && !slices.ContainsFunc(pure, func(p string) bool { return matches(path, p) }) {
			fault("the %s has no I/O, clock, log, goroutine or metrics, and this is not known to have none", name)
		}
		return faults
	}
	target := layerOf(to)
	if target.layer < 0 {
		fault("it belongs to no layer")
		return faults
	}
	if target.layer < at.layer || target.layer == at.layer && !layers[at.layer].peers && target.folder != at.folder {
		fault("%s may not know %s", name, layers[target.layer].name)
	}
	if name == "services" && layers[target.layer].name == "adapters" {
		fault("services know stores and brokers by their contracts")
	}
	if dir := closestAlone(from); dir != "" && !within(to, dir) && !anyWithin(to, alone[dir]) {
		fault("%s stands alone", dir)
	}
	return faults
}

// closestAlone returns the folder by which a package stands alone, "" for none.
func closestAlone(path string) string {
	longest := ""
	for dir := range alone {
		if within(path, dir) && len(dir) > len(longest) {
			longest = dir
		}
	}
	return longest
}

// layerRef is the layer of a package, -1 for none, and the folder by which it belongs to the layer.
type layerRef struct {
	layer  int
	folder string
}

func layerOf(path string) layerRef {
	at := layerRef{layer: -1}
	for i, l := range layers {
		for _, f := range l.folders {
			if within(path, f) && len(f) > len(at.folder) {
				at = layerRef{i, f}
			}
		}
	}
	return at
}

const module = "binnacle"

// folder returns a package's path below the module, and reports whether it belongs to the project.
func folder(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func anyWithin(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
}

// matches reports whether the path equals the pattern, or lies below a pattern that ends in a slash.
func matches(path, pattern string) bool {
	return path == pattern || strings.HasSuffix(pattern, "/") && strings.HasPrefix(path, pattern)
}

// forTests reports whether a package is for tests: testing, testify, and ours that end in test, such as storetest.
func forTests(path string) bool {
	if within(path, "testing") || within(path, "github.com/stretchr/testify") || within(path, "go.uber.org/goleak") {
		return true
	}
	own, ours := folder(path)
	if !ours {
		own = path
	}
	base := own[strings.LastIndex(own, "/")+1:]
	known := layerOf(own).layer >= 0 // a path of the project, or below it
	return known && strings.HasSuffix(base, "test") && !slices.Contains([]string{"loadtest"}, base)
}
