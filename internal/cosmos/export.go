package cosmos

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"binnacle/internal/store"
)

// Exports are the languages in which Export writes.
var Exports = []string{"arm", "bicep", "terraform"}

// armVersion is the version of the service's own interface that templates are written for.
const armVersion = "2024-11-15"

//go:embed export/*.tmpl
var exports embed.FS

// Export returns the database and the containers that infrastructure code owns, in the language of its tool: with the
// keys, the index and the throughput that EnsureBase makes. Containers of chunks and rollups are made by provision
// alone, month by month, and are in none of them.
func Export(language string) ([]byte, error) {
	switch language {
	case "arm":
		return exportARM()
	case "bicep", "terraform":
		return exportText(language)
	}
	return nil, fmt.Errorf("there is no export as %q; there are %s", language, strings.Join(Exports, ", "))
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

func exportText(language string) ([]byte, error) {
	quoted := func(quote string, all []string) string {
		var out []string
		for _, s := range all {
			out = append(out, quote+s+quote)
		}
		return strings.Join(out, ", ")
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

// object is JSON. Its properties are written in the order of their names.
type object = map[string]any

func exportARM() ([]byte, error) {
	const kind = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases"
	database := "[concat(parameters('account'), '/" + store.Database + "')]"
	resources := []object{{
		"type": kind, "apiVersion": armVersion, "name": database,
		"properties": object{"resource": object{"id": store.Database}},
	}}
	for _, c := range exportedBase() {
		options := object{"throughput": c.RUs}
		if c.Autoscale {
			options = object{"autoscaleSettings": object{"maxThroughput": c.RUs}}
		}
		var indexed []object
		for _, path := range c.Indexed {
			indexed = append(indexed, object{"path": path})
		}
		resource := object{
			"id":           c.Name,
			"partitionKey": object{"kind": c.Kind, "version": c.Version, "paths": c.Key},
			"indexingPolicy": object{"automatic": true, "indexingMode": "consistent", "includedPaths": indexed,
				"excludedPaths": []object{{"path": "/*"}}},
		}
		if c.Expires {
			resource["defaultTtl"] = -1
		}
		resources = append(resources, object{
			"type": kind + "/containers", "apiVersion": armVersion,
			"name":       "[concat(parameters('account'), '/" + store.Database + "/" + c.Name + "')]",
			"dependsOn":  []string{"[resourceId('" + kind + "', parameters('account'), '" + store.Database + "')]"},
			"properties": object{"options": options, "resource": resource},
		})
	}
	out, err := json.MarshalIndent(object{
		"$schema":        "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
		"contentVersion": "1.0.0.0",
		"parameters": object{"account": object{
			"type": "string", "metadata": object{"description": "Name of the account, which is there already."},
		}},
		"resources": resources,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("export as arm: %w", err)
	}
	return append(out, '\n'), nil
}
