package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/diagnose/rejected"
	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

// schema is a schema of the document, as far as answers are held against it.
type schema struct {
	Ref        string `json:"$ref"`
	Required   []string
	Properties map[string]schema
	Items      *schema
	AnyOf      []schema
	// AdditionalProperties is there where an object may have members that are not named.
	AdditionalProperties any
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name        string
	In          string
	Description string
}

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	Parameters  []parameter
	Responses   map[string]struct {
		Ref     string `json:"$ref"`
		Content map[string]struct{ Schema schema }
	}
}

type document struct {
	OpenAPI    string
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]parameter
		Schemas    map[string]schema
		Responses  map[string]any
	}
}

// nothing is what was refused of nobody.
type nothing struct{}

func (nothing) Rejected(rejected.Request) rejected.Answer { return rejected.Answer{Complete: true} }

func (nothing) Steps(string, telemetry.Range, int64) (map[string]map[int]bool, string) {
	return nil, ""
}

func (nothing) Of(string, string, telemetry.Range) ([]gaps.Refusal, []int64, string) {
	return nil, nil, ""
}

// The document has every endpoint, with its methods and parameters, and nothing else; and what is answered has the
// members that it says.
func TestOpenAPIDocument(t *testing.T) {
	s := newServer(t, func(_ *query.Config, c *httpapi.Config) {
		c.Rejected, c.Annotations, c.Cost = nothing{}, noAnnotations(t), costOf
	})
	s.fill()
	a, err := s.do(t, http.MethodGet, "/api/v1/openapi.json", nil)
	require.NoError(t, err)
	require.Equal(t, 200, a.status, "without a credential")
	var doc document
	require.NoError(t, json.Unmarshal([]byte(a.body), &doc))
	require.Equal(t, "3.1.0", doc.OpenAPI)
	routes := httpapi.Routes(httpapi.Config{Rejected: nothing{}, Annotations: noAnnotations(t), Cost: costOf})
	require.Equal(t, slices.Sorted(maps.Keys(routes)), slices.Sorted(maps.Keys(doc.Paths)))
	ids := make(map[string]bool)
	for path, operations := range doc.Paths {
		var methods []string
		for method, o := range operations {
			methods = append(methods, strings.ToUpper(method))
			require.False(t, ids[o.OperationID], o.OperationID)
			ids[o.OperationID] = true
			require.NotEmpty(t, o.Summary)
			var names []string
			for _, p := range o.Parameters {
				if p.Ref != "" {
					p = doc.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				}
				require.NotEmpty(t, p.Description)
				if p.In == "header" {
					require.Equal(t, httpapi.AfterHeader, p.Name)
					continue
				}
				require.Equal(t, "query", p.In)
				names = append(names, p.Name)
			}
			parameters := routes[path][1]
			if path == "/api/v1/annotations" && method == "post" { // it has a body in their place
				parameters = nil
			}
			require.ElementsMatch(t, parameters, names, path)
			require.Equal(t, "#/components/responses/Problem", o.Responses["default"].Ref)
		}
		require.ElementsMatch(t, routes[path][0], methods, path)
		for format, content := range operations["get"].Responses["200"].Content {
			get := path + map[string]string{
				"application/x-ndjson": "?format=ndjson", "text/csv; charset=utf-8": "?format=csv",
				"application/vnd.apache.parquet": "?format=parquet",
			}[format]
			if needs := map[string]string{"/api/v1/gaps": "device=m1", "/api/v1/diff": "since=-1d"}[path]; needs != "" {
				get += map[bool]string{true: "&", false: "?"}[strings.Contains(get, "?")] + needs
			}
			a := s.get(t, get)
			require.Equal(t, 200, a.status, get)
			require.Equal(t, format, a.header.Get("Content-Type"), get)
			if format != "application/json" {
				continue
			}
			var body any
			require.NoError(t, json.Unmarshal([]byte(a.body), &body))
			doc.hold(t, path, content.Schema, body)
		}
	}
	var grouped any
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/api/v1/aggregates?by=device,label:axis&aggregate=p95").body),
		&grouped))
	doc.hold(t, "grouped", doc.Paths["/api/v1/aggregates"]["get"].Responses["200"].Content["application/json"].Schema,
		grouped)
	a, err = s.do(t, http.MethodPost, "/api/v1/openapi.json", nil)
	require.NoError(t, err)
	require.Equal(t, 405, a.status)
	parseProblem(t, a)
}

// hold requires that an answer has the members that its schema requires, and no others than it names.
func (d *document) hold(t *testing.T, at string, s schema, v any) {
	t.Helper()
	require.Empty(t, d.fault(at, s, v))
}

// fault says what of a value its schema doesn't allow.
func (d *document) fault(at string, s schema, v any) string {
	if s.Ref != "" {
		named, ok := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		if !ok {
			return "there is no " + s.Ref
		}
		s = named
	}
	if len(s.AnyOf) > 0 {
		var all []string
		for _, one := range s.AnyOf {
			fault := d.fault(at, one, v)
			if fault == "" {
				return ""
			}
			all = append(all, fault)
		}
		return strings.Join(all, " and ")
	}
	switch v := v.(type) {
	case []any:
		if s.Items == nil {
			return at + " has no items"
		}
		for _, x := range v {
			if fault := d.fault(at+"[]", *s.Items, x); fault != "" {
				return fault
			}
		}
	case map[string]any:
		for _, name := range s.Required {
			if _, there := v[name]; !there {
				return at + " lacks " + name
			}
		}
		for name, x := range v {
			named, known := s.Properties[name]
			if !known && s.Properties != nil && s.AdditionalProperties == nil {
				return at + " has " + name
			}
			if fault := d.fault(at+"."+name, named, x); known && fault != "" {
				return fault
			}
		}
	}
	return ""
}
