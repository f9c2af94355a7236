// Package deploy holds that what deploy/ names exists: metrics, flags and pages in alerts and their runbooks,
// dashboards, the compose file and the chart.
package deploy_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// Chart is a Helm chart. Its templates may only call the functions below.
type Chart struct {
	dir    string
	values map[string]any
	about  map[string]any
}

// ReadChart reads a chart's folder.
func ReadChart(dir string) (*Chart, error) {
	c := &Chart{dir: dir}
	for name, into := range map[string]*map[string]any{"values.yaml": &c.values, "Chart.yaml": &c.about} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, nil
}

// files gives templates the files of a chart.
type files string

// Get returns the text of a file, as Helm does "" for one that is not there.
func (f files) Get(name string) string {
	text, _ := os.ReadFile(filepath.Join(string(f), name))
	return string(text)
}

// Render returns the manifests of the chart with some of its values replaced by changes, YAML.
func (c *Chart) Render(release, changes string) ([]map[string]any, error) {
	var over map[string]any
	if err := yaml.Unmarshal([]byte(changes), &over); err != nil {
		return nil, err
	}
	about := make(map[string]any)
	for name, value := range c.about {
		about[strings.ToUpper(name[:1])+name[1:]] = value
	}
	root := map[string]any{
		"Values": overlay(clone(c.values), over), "Chart": about, "Files": files(c.dir),
		"Release": map[string]any{"Name": release, "Namespace": "telemetry", "Service": "Helm"},
	}
	t := template.New("").Option("missingkey=error")
	t.Funcs(functions(t))
	names, err := filepath.Glob(filepath.Join(c.dir, "templates/*"))
	if err != nil {
		return nil, err
	}
	if _, err := t.ParseFiles(names...); err != nil {
		return nil, err
	}
	var all []map[string]any
	for _, name := range names {
		if strings.HasPrefix(filepath.Base(name), "_") {
			continue
		}
		var text strings.Builder
		if err := t.ExecuteTemplate(&text, filepath.Base(name), root); err != nil {
			return nil, err
		}
		for d := yaml.NewDecoder(strings.NewReader(text.String())); ; {
			var manifest map[string]any
			if err := d.Decode(&manifest); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, text.String())
			}
			if manifest != nil {
				all = append(all, manifest)
			}
		}
	}
	return all, nil
}

// functions returns the functions of Helm that templates may call beside those of text/template.
func functions(t *template.Template) template.FuncMap {
	indent := func(n int, s string) string {
		pad := strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(s, "\n", "\n"+pad)
	}
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := t.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"nindent":    func(n int, s string) string { return "\n" + indent(n, s) },
		"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"default":    func(otherwise, s string) string { return cmp.Or(s, otherwise) },
		"replace":    func(old, by, s string) string { return strings.ReplaceAll(s, old, by) },
		"trunc":      func(n int, s string) string { return s[:min(n, len(s))] },
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"list":       func(v ...any) []any { return v },
		"sha256sum": func(s string) string {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:])
		},
		"dict": func(v ...any) map[string]any {
			d := make(map[string]any)
			for i := 0; i+1 < len(v); i += 2 {
				d[fmt.Sprint(v[i])] = v[i+1]
			}
			return d
		},
		"set": func(d map[string]any, name string, v any) map[string]any {
			d[name] = v
			return d
		},
		"mergeOverwrite": func(d map[string]any, over ...map[string]any) map[string]any {
			for _, o := range over {
				d = overlay(d, o)
			}
			return d
		},
		"required": func(why, s string) (string, error) {
			if s == "" {
				return "", errors.New(why)
			}
			return s, nil
		},
	}
}

// overlay merges values into others, mapping by mapping.
func overlay(base, over map[string]any) map[string]any {
	for name, v := range over {
		inner, ok := v.(map[string]any)
		below, both := base[name].(map[string]any)
		if ok && both {
			v = overlay(below, inner)
		}
		base[name] = v
	}
	return base
}

// clone copies mappings in mappings.
func clone(m map[string]any) map[string]any {
	out := maps.Clone(m)
	for name, v := range out {
		if inner, ok := v.(map[string]any); ok {
			out[name] = clone(inner)
		}
	}
	return out
}
