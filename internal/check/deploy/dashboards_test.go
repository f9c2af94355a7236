package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type dashboard struct {
	UID        string
	Title      string
	Templating struct {
		List []struct{ Name string }
	}
	Panels []struct {
		ID          int
		Title       string
		Description string
		Datasource  struct{ UID string }
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct {
			RefID      string
			Datasource struct{ UID string }
			Expr       string
		}
	}
}

// Every panel asks something that Prometheus understands, of metrics that there are, from the data source that is
// chosen, and has a place of its own.
func TestDashboards(t *testing.T) {
	c := readCode(t)
	files, err := filepath.Glob(filepath.Join(root, "deploy/dashboards/*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	uids := map[string]bool{}
	fills := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal(text, &d), f)
		require.NotEmpty(t, d.UID, f)
		require.LessOrEqual(t, len(d.UID), 40, f)
		require.False(t, uids[d.UID], "two dashboards are %s", d.UID)
		uids[d.UID] = true
		require.Equal(t, "datasource", d.Templating.List[0].Name, f)
		places, ids := map[[2]int]bool{}, map[int]bool{}
		for _, p := range d.Panels {
			require.NotEmpty(t, p.Title, f)
			require.NotEmpty(t, p.Description, "%s: %s", f, p.Title)
			require.Equal(t, "${datasource}", p.Datasource.UID, "%s: %s", f, p.Title)
			at := [2]int{p.GridPos.X, p.GridPos.Y}
			require.False(t, places[at] || ids[p.ID], "%s: %s stands where another does", f, p.Title)
			places[at], ids[p.ID] = true, true
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24)
			require.NotEmpty(t, p.Targets, "%s: %s", f, p.Title)
			for _, target := range p.Targets {
				expr := fills.Replace(target.Expr)
				require.NotContains(t, expr, "$", "%s: %s", f, p.Title)
				c.check(t, expr)
			}
		}
	}
}

// operationNames are the literals from which the client of the store makes its values of the label operation.
var operationNames = regexp.MustCompile(`(?:\.to(?:Write)?\(|operation: )"([a-z_]+)"`)

// Every value of the label operation that a dashboard or an alert asks for is one that the store's client has.
func TestOperationsExist(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "internal/cosmos/*.go"))
	require.NoError(t, err)
	operations := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range operationNames.FindAllSubmatch(text, -1) {
			operations[string(m[1])] = true
			if strings.HasSuffix(f, "/documents.go") {
				operations["control_"+string(m[1])] = true
			}
		}
	}
	require.Greater(t, len(operations), 20)
	files, err = filepath.Glob(filepath.Join(root, "deploy/dashboards/*.json"))
	require.NoError(t, err)
	asked := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`binnacle_cosmos[^}]*operation=~?\\"([^\\]*)\\"`).FindAllSubmatch(text, -1) {
			for _, one := range strings.Split(string(m[1]), "|") {
				asked++
				pattern := regexp.MustCompile("^(?:" + one + ")$")
				require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(operations)), pattern.MatchString),
					"%s asks for operation %q", f, one)
			}
		}
	}
	require.Positive(t, asked)
}
