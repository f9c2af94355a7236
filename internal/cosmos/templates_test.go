package cosmos_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/cosmos/armcosmos/v3"
	"github.com/stretchr/testify/require"
)

// templates are the files in deploy that make the base of an account, and how each begins a container and writes what
// the test compares.
var templates = map[string]struct {
	file, begin                    string
	kind, version, rus, scale      string
	key, indexed, quoted, excluded string
}{
	"bicep": {
		"../../deploy/bicep/main.bicep", "resource %s 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@",
		`kind: '(\w+)'`, `version: (\d)`, `\bthroughput: (\d+)`, `maxThroughput: (\d+)`,
		`paths: \[(.*)\]`, `(?s)includedPaths: \[(.*?)\]`, `'([^']+)'`, `(?s)excludedPaths: \[(.*?)\]`,
	},
	"terraform": {
		"../../deploy/terraform/main.tf", `resource "azurerm_cosmosdb_sql_container" "%s" {`,
		`partition_key_kind += "(\w+)"`, `partition_key_version = (\d)`, `\bthroughput += (\d+)`, `max_throughput = (\d+)`,
		`partition_key_paths += \[(.*)\]`, `(?s)((?:included_path \{.*?\}\s*)+)`, `"([^"]+)"`, `(?s)excluded_path \{(.*?)\}`,
	},
}

// The account's templates make the containers that the code makes: the same keys, index and throughput.
func TestTemplatesMakeTheSameContainers(t *testing.T) {
	m := newManager(t)
	require.NoError(t, m.arm().EnsureBase(t.Context()))
	require.Len(t, m.containers, 2)
	for name, of := range templates {
		text, err := os.ReadFile(of.file)
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
			require.Equal(t, string(*want.PartitionKey.Kind), one(of.kind))
			require.Equal(t, strconv.Itoa(int(*want.PartitionKey.Version)), one(of.version))
			require.Equal(t, pathsOf(want.PartitionKey.Paths, func(p *string) string { return *p }), texts(of.key))
			policy := want.IndexingPolicy
			in := pathsOf(policy.IncludedPaths, func(p *armcosmos.IncludedPath) string { return *p.Path })
			require.Equal(t, in, texts(of.indexed))
			out := pathsOf(policy.ExcludedPaths, func(p *armcosmos.ExcludedPath) string { return *p.Path })
			require.Equal(t, out, texts(of.excluded))
			require.Nil(t, want.DefaultTTL)
			require.NotRegexp(t, `(?i)default_?ttl`, block)
			if sold := m.throughput[container]; sold.AutoscaleSettings != nil {
				require.Equal(t, strconv.Itoa(int(*sold.AutoscaleSettings.MaxThroughput)), one(of.scale))
			} else {
				require.Equal(t, strconv.Itoa(int(*sold.Throughput)), one(of.rus))
			}
		}
	}
}

func pathsOf[T any](of []*T, path func(*T) string) (out []string) {
	for _, p := range of {
		out = append(out, path(p))
	}
	return out
}

// The role of provision in the templates has each action that the code asks for by name when it is missing.
func TestTemplatesAllowWhatProvisionDoes(t *testing.T) {
	source, err := os.ReadFile("arm.go")
	require.NoError(t, err)
	actions := regexp.MustCompile(`"(Microsoft\.DocumentDB/[^"]+)"`).FindAllSubmatch(source, -1)
	require.Len(t, actions, 6)
	for name, of := range templates {
		text, err := os.ReadFile(of.file)
		require.NoError(t, err)
		for _, a := range actions {
			require.Regexp(t, `(?m)^\s+['"]`+regexp.QuoteMeta(string(a[1]))+`['"],?$`, string(text), name)
		}
	}
}
