package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func readRules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy/alerts/binnacle.rules.yaml"))
	require.NoError(t, err)
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var f ruleFile
	require.NoError(t, d.Decode(&f))
	var all []rule
	groups := map[string]bool{}
	for _, g := range f.Groups {
		require.False(t, groups[g.Name], "two groups are named %s", g.Name)
		groups[g.Name] = true
		all = append(all, g.Rules...)
	}
	return all
}

// Every rule is one that Prometheus takes, on metrics that there are, and names severity and runbook.
func TestAlerts(t *testing.T) {
	c := readCode(t)
	seen := map[string]bool{}
	for _, r := range readRules(t) {
		require.Regexp(t, `^Binnacle[A-Za-z]+$`, r.Alert)
		require.False(t, seen[r.Alert], "two alerts are named %s", r.Alert)
		seen[r.Alert] = true
		c.check(t, r.Expr)
		if r.For != "" {
			require.Positive(t, pause(t, r.For), r.Alert)
		}
		require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Equal(t, "docs/operate/runbooks/"+r.Alert+".md", r.Annotations["runbook_url"])
	}
	require.Greater(t, len(seen), 12)
}

// Each alert has its runbook, and each runbook its alert; a link between them leads somewhere.
func TestRunbooks(t *testing.T) {
	alerts := map[string]bool{}
	for _, r := range readRules(t) {
		alerts[r.Alert] = true
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/operate/runbooks/*.md"))
	require.NoError(t, err)
	for _, p := range pages {
		name := strings.TrimSuffix(filepath.Base(p), ".md")
		require.True(t, alerts[name], "the runbook %s has no alert", name)
		delete(alerts, name)
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "# "+name+"\n"), name)
		for _, part := range []string{"\n## Meaning\n", "\n## Look at\n", "\n## Do\n"} {
			require.Contains(t, string(text), part, name)
		}
		for _, link := range links.FindAllStringSubmatch(string(text), -1) {
			require.FileExists(t, filepath.Join(filepath.Dir(p), link[1]), name)
		}
	}
	require.Empty(t, alerts, "alerts without a runbook")
}
