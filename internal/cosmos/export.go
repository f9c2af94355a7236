package cosmos

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"binnacle/internal/store"
)

// Exports are the languages in which Export writes.
var Exports = []string{"arm", "bicep", "terraform"}

// armVersion is the version of the service's own interface that templates and requests of ARM are written for.
const armVersion = "2024-11-15"

//go:embed export/*.tmpl
var exports embed.FS

// Export returns the database and the containers that infrastructure code owns, in the language of its tool: with the
// keys, the index and the throughput that EnsureBase makes. Containers of chunks and rollups are made by provision
// alone, month by month, and are in none of them.
func Export(language string) ([]byte, error) {
	if !slices.Contains(Exports, language) {
		return nil, fmt.Errorf("there is no export as %q; there are %s", language, strings.Join(Exports, ", "))
	}
	quoted := func(quote string, all []string) string {
		return quote + strings.Join(all, quote+", "+quote) + quote
	}
	t, err := template.New(language+".tmpl").Funcs(template.FuncMap{"quoted": quoted}).
		ParseFS(exports, "export/"+language+".tmpl")
	if err != nil {
		return nil, fmt.Errorf("export as %s: %w", language, err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Database": store.Database, "API": armVersion, "Containers": exportedBase()})
	if err != nil {
		return nil, fmt.Errorf("export as %s: %w", language, err)
	}
	return b.Bytes(), nil
}

// exported is a container as templates see it.
type exported struct {
	Name, Kind    string
	Key, Indexed  []string
	RUs           int
	Autoscale     bool
	Hierarchical  bool
	Expires       bool // documents may have a time to live
	Version, Keys int
}

func exportedBase() (out []exported) {
	for _, l := range baseLayouts {
		p := l.properties()
		e := exported{
			Name: l.Name, Kind: string(p.PartitionKeyDefinition.Kind), Key: l.Key, RUs: l.throughput.RUs,
			Autoscale: l.throughput.Autoscale, Hierarchical: len(l.Key) > 1, Keys: len(l.Key),
			Version: p.PartitionKeyDefinition.Version, Expires: l.TTL,
		}
		for _, path := range p.IndexingPolicy.IncludedPaths {
			e.Indexed = append(e.Indexed, path.Path)
		}
		out = append(out, e)
	}
	return out
}
