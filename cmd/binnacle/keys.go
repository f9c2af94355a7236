package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// keys lists the settings that are no flags, by patterns of names: they are set once in an installation's life, in the
// file of --config or by a BINNACLE_* variable. `binnacle COMMAND --print-config` prints flags and keys with their
// help, which makes it the manual of the file.
var keys = []string{
	"log-format", "trusted-hosts",
	"key", "regions", "identity", "identity-client", "azure-*", "to-capacity", "to-key", "to-regions", "to-identity",
	"to-identity-client",
	"kafka-ca", "kafka-cert", "kafka-client-id", "kafka-cluster-id", "kafka-compression", "kafka-fetch-mb", "kafka-key",
	"kafka-max-batch-mb", "kafka-max-request", "kafka-sasl", "kafka-server-name", "kafka-timeout", "kafka-tls",
	"kafka-token-file", "kafka-user",
	"default-device", "histogram-buckets", "hub-gateways", "lp-*", "message-format", "object-*", "otlp-*",
	"remote-write-*", "sequence",
	"commit-every", "drain-budget", "fair-after", "future", "held-for", "journal-every", "low-priority-after",
	"max-behind", "max-months", "max-writes", "past", "register-rate", "session-timeout", "catalog-memory-mb",
	"tenant-ingest-*", "schema-registry-*",
	"heads-tls-*", "api-tls-*", "oidc-*",
	"max-queries", "max-queued", "promql-*", "queries-memory-mb", "query-cache-*", "query-fanout", "query-priority",
	"queriers", "queue-timeout", "rejected-mb", "tags-*", "tenant-query-*",
	"hot-rus", "warm-rus", "cold-rus", "shared-rus", "rollup-rus", "erasure-rus", "sweep-rus", "follow-load",
	"autoscale-per-partition", "capacity",
	"rollup-days", "rollup-every", "rollup-families", "rollup-first", "rollup-late-every", "rollup-metrics",
	"rollup-without", "balance-*",
	"consistency", "partition-bytes", "region", "split-takes",
}

// typed lists the keys that are flags of one command all the same: a person types them for one call.
var typed = map[string][]string{
	"dev":             {"capacity"},
	"provision":       {"capacity"},
	"emulator":        {"capacity", "consistency", "partition-bytes", "region", "split-takes"},
	"replay":          {"lp-*"},
	"rollups rebuild": {"rollup-first", "rollup-metrics"},
}

// isKey reports whether a setting of a command is a key of the file and no flag. The path of the command is that on the
// command line, "rollups rebuild".
func isKey(command, name string) bool {
	return matchesAny(keys, name) && !matchesAny(typed[command], name)
}

// matchesAny reports whether a name matches one of the patterns. A star at the end of a pattern stands for any text.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		begin, isPrefix := strings.CutSuffix(p, "*")
		return p == name || isPrefix && strings.HasPrefix(name, begin)
	})
}

// hideKeys removes the keys from the help of all commands below a node, and the dashes from their names in it.
func hideKeys(node *kong.Node, path string) {
	for _, flag := range node.Flags {
		flag.Hidden = flag.Hidden || isKey(path, flag.Name)
		flag.Help = nameKeys(path, flag.Help)
	}
	for _, command := range node.Children {
		hideKeys(command, strings.TrimPrefix(path+" "+command.Name, " "))
	}
}

// refuseKeys returns an error if the command line sets a key.
func refuseKeys(c *kong.Context) error {
	command := pathOf(c.Selected())
	for _, element := range c.Path {
		if f := element.Flag; f != nil && !element.Resolved && isKey(command, f.Name) {
			return fmt.Errorf("--%s is no flag: set %[1]s in the file of --config, or the variable %s", f.Name,
				strings.Join(f.Envs, ", "))
		}
	}
	return nil
}

// pathOf returns the path of a command on the command line, without the program: "rollups rebuild".
func pathOf(command *kong.Node) string {
	var names []string
	for n := command; n != nil && n.Type != kong.ApplicationNode; n = n.Parent {
		names = append(names, n.Name)
	}
	slices.Reverse(names)
	return strings.Join(names, " ")
}

var flagNamed = regexp.MustCompile(`--[a-z][a-z0-9-]*`)

// nameKeys returns a text with the names of keys without the dashes of flags.
func nameKeys(command, text string) string {
	return flagNamed.ReplaceAllStringFunc(text, func(flag string) string {
		name := strings.TrimPrefix(flag, "--")
		if isKey(command, name) {
			return name
		}
		return flag
	})
}
