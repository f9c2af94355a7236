package cosmos_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"binnacle/internal/cosmos"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// templates are the files in deploy that make the base of an account, and how each begins a container and writes what
// the test compares.
var templates = map[string]struct {
	file, containers, begin        string
	kind, version, rus, scale      string
	key, indexed, quoted, excluded string
}{
	"bicep": {
		"../../deploy/bicep/main.bicep", "../../deploy/bicep/containers.bicep",
		"resource %s 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@",
		`kind: '(\w+)'`, `version: (\d)`, `options: serverless \? \{\} : \{\s+throughput: (\d+)`,
		`options: serverless \? \{\} : \{\s+autoscaleSettings: \{\s+maxThroughput: (\d+)`,
		`paths: \[(.*)\]`, `(?s)includedPaths: \[(.*?)\]`, `'([^']+)'`, `(?s)excludedPaths: \[(.*?)\]`,
	},
	"terraform": {
		"../../deploy/terraform/main.tf", "../../deploy/terraform/containers.tf",
		`resource "azurerm_cosmosdb_sql_container" "%s" {`,
		`partition_key_kind += "(\w+)"`, `partition_key_version = (\d)`, `\bthroughput += var.serverless \? null : (\d+)`,
		`max_throughput = (\d+)`,
		`partition_key_paths += \[(.*)\]`, `(?s)((?:included_path \{.*?\}\s*)+)`, `"([^"]+)"`, `(?s)excluded_path \{(.*?)\}`,
	},
}

// update writes what the code exports to where the templates have it.
var update = flag.Bool("update", false, "write deploy/bicep/containers.bicep and deploy/terraform/containers.tf")

// What stands beside the templates is what the code exports, so that no key and no index can drift.
func TestTemplatesMatchExport(t *testing.T) {
	for name, of := range templates {
		want, err := cosmos.Export(name)
		require.NoError(t, err)
		if *update {
			require.NoError(t, os.WriteFile(of.containers, want, 0o644))
		}
		got, err := os.ReadFile(of.containers)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "binnacle provision --export %s > %s", name, of.containers)
	}
	_, err := cosmos.Export("pulumi")
	require.EqualError(t, err, `there is no export as "pulumi"; there are arm, bicep, terraform`)
}

// An account is serverless, or of the free tier, by one parameter each, and is neither by default.
func TestTemplatesOfferServerlessAndFreeTier(t *testing.T) {
	for name, lines := range map[string][]string{
		"bicep": {"param serverless bool = false", "param freeTier bool = false", "enableFreeTier: freeTier",
			"capabilities: serverless ? [{ name: 'EnableServerless' }] : []", "serverless: serverless"},
		"terraform": {`for_each = var.serverless ? ["EnableServerless"] : []`,
			"free_tier_enabled             = var.free_tier"},
	} {
		text, err := os.ReadFile(templates[name].file)
		require.NoError(t, err)
		for _, line := range lines {
			require.Regexp(t, `(?m)^\s*`+regexp.QuoteMeta(line)+`$`, string(text), name)
		}
	}
	variables, err := os.ReadFile("../../deploy/terraform/variables.tf")
	require.NoError(t, err)
	for _, name := range []string{"serverless", "free_tier"} {
		require.Regexp(t, `(?s)variable "`+name+`" \{[^}]*default     = false`, string(variables))
	}
	require.Contains(t, string(variables), "condition     = !(var.free_tier && var.serverless)")
}

// In Terraform a container with a key of several levels is checked after it was made: the kind can't be mended.
func TestTerraformAssertsHierarchicalKeys(t *testing.T) {
	text, err := cosmos.Export("terraform")
	require.NoError(t, err)
	for _, block := range strings.Split(string(text), "\nresource ")[1:] {
		key := regexp.MustCompile(`partition_key_paths +\= \[(.*)\]`).FindStringSubmatch(block)
		if key == nil || !strings.Contains(key[1], ",") {
			require.NotContains(t, block, "postcondition")
			continue
		}
		require.Contains(t, block, `partition_key_kind    = "MultiHash"`)
		require.Contains(t, block, fmt.Sprintf(`self.partition_key_kind == "MultiHash" && length(self.partition_key_paths) == %d`,
			strings.Count(key[1], ",")+1))
	}
}

// The template of Azure Resource Manager makes what the code makes through it.
func TestARMTemplateMatchesLayouts(t *testing.T) {
	m := newManager(t)
	require.NoError(t, m.arm().EnsureBase(t.Context()))
	text, err := cosmos.Export("arm")
	require.NoError(t, err)
	var all struct {
		Resources []struct {
			Type, Name string
			Properties struct {
				Options  armThroughput
				Resource armContainer
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &all))
	require.Len(t, all.Resources, 1+len(m.containers))
	require.Equal(t, "[concat(parameters('account'), '/binnacle')]", all.Resources[0].Name)
	for _, r := range all.Resources[1:] {
		got := r.Properties.Resource
		want, ok := m.containers[got.ID]
		require.True(t, ok, got.ID)
		require.Equal(t, "[concat(parameters('account'), '/binnacle/"+got.ID+"')]", r.Name)
		require.Equal(t, want.PartitionKey, got.PartitionKey)
		require.Equal(t, want.IndexingPolicy, got.IndexingPolicy)
		require.Equal(t, want.DefaultTTL, got.DefaultTTL)
		sold := m.throughput[got.ID]
		require.Equal(t, sold.AutoscaleSettings != nil, r.Properties.Options.AutoscaleSettings != nil)
		if sold.AutoscaleSettings != nil {
			require.Equal(t, sold.AutoscaleSettings.MaxThroughput, r.Properties.Options.AutoscaleSettings.MaxThroughput)
		} else {
			require.Equal(t, sold.Throughput, r.Properties.Options.Throughput)
		}
	}
}

// The account's templates make the containers that the code makes: the same keys, index and throughput.
func TestTemplatesMatchLayouts(t *testing.T) {
	m := newManager(t)
	require.NoError(t, m.arm().EnsureBase(t.Context()))
	require.Len(t, m.containers, len(store.BaseContainers()))
	for name, of := range templates {
		text, err := os.ReadFile(of.containers)
		require.NoError(t, err)
		for container, want := range m.containers {
			_, block, found := strings.Cut(string(text), strings.ReplaceAll(of.begin, "%s", container))
			require.True(t, found, "%s makes no %s", name, container)
			block, _, _ = strings.Cut(block, "\n}\n")
			one := func(pattern string) string {
				m := regexp.MustCompile(pattern).FindStringSubmatch(block)
				require.NotNil(t, m, "%s: %s has no %s", name, container, pattern)
				return m[1]
			}
			texts := func(pattern string) (out []string) {
				for _, m := range regexp.MustCompile(of.quoted).FindAllStringSubmatch(one(pattern), -1) {
					out = append(out, m[1])
				}
				return out
			}
			require.Equal(t, want.PartitionKey.Kind, one(of.kind))
			require.Equal(t, strconv.Itoa(int(want.PartitionKey.Version)), one(of.version))
			require.Equal(t, want.PartitionKey.Paths, texts(of.key))
			policy := want.IndexingPolicy
			in := pathsOf(policy.IncludedPaths)
			require.Equal(t, in, texts(of.indexed))
			out := pathsOf(policy.ExcludedPaths)
			require.Equal(t, out, texts(of.excluded))
			if want.DefaultTTL == nil {
				require.NotRegexp(t, `(?i)default_?ttl`, block)
			} else {
				require.Regexp(t, `(?im)^\s*default_?ttl *[:=] -1$`, block, container)
			}
			if sold := m.throughput[container]; sold.AutoscaleSettings != nil {
				require.Equal(t, strconv.Itoa(int(*sold.AutoscaleSettings.MaxThroughput)), one(of.scale))
			} else {
				require.Equal(t, strconv.Itoa(int(*sold.Throughput)), one(of.rus))
			}
		}
	}
}

func pathsOf(all []armPath) (out []string) {
	for _, p := range all {
		out = append(out, p.Path)
	}
	return out
}

// The role of provision in the templates has each action that the code asks for by name when it is missing.
func TestTemplatesGrantProvisionActions(t *testing.T) {
	source, err := os.ReadFile("arm.go")
	require.NoError(t, err)
	actions := regexp.MustCompile(`"(Microsoft\.DocumentDB/[^"]+)"`).FindAllSubmatch(source, -1)
	require.Len(t, actions, 9)
	for name, of := range templates {
		text, err := os.ReadFile(of.file)
		require.NoError(t, err)
		for _, a := range actions {
			require.Regexp(t, `(?m)^\s+['"]`+regexp.QuoteMeta(string(a[1]))+`['"],?$`, string(text), name)
		}
	}
}

// Queriers read the database, and write the container heat alone.
func TestTemplatesLetQueriersWriteHeatAlone(t *testing.T) {
	for name, granted := range map[string][]string{
		"bicep": {`(?s)var roles = \[\n[^\n]*'ingest'[^\n]*\n  \{ name: 'query', dataRole: reader \}\n`,
			`(?s)principalId: identities\[1\][^\n]*\n[^\n]*/\$\{contributor\}'\n    scope: '[^']*/dbs/[^']*/colls/heat'\n`},
		"terraform": {`\n    query     = local\.reader\n`,
			`(?s)role\["query"\][^\n]*\n[^\n]*\}/sqlRoleDefinitions/\$\{local\.contributor\}"\n[^\n]*` +
				`/colls/\$\{azurerm_cosmosdb_sql_container\.heat\.name\}"\n`},
	} {
		text, err := os.ReadFile(templates[name].file)
		require.NoError(t, err)
		for _, g := range granted {
			require.Regexp(t, g, string(text), name)
		}
		require.Len(t, regexp.MustCompile(`(?i)sql_?role_?assignments?["@]`).FindAllString(string(text), -1), 2, name)
	}
}
