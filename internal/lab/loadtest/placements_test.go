package loadtest_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"binnacle/internal/lab/loadtest"
	"binnacle/internal/settings"

	"github.com/stretchr/testify/require"
)

// A flood reaches those who share a container with it and nobody else, and the guide's table is what the command
// prints. make placements writes it anew.
func TestPlacementsAreComparedAsTheGuideSays(t *testing.T) {
	cfg := loadtest.Config{Placements: true}
	settings.Defaults(&cfg)
	r := run(t, cfg)
	require.Len(t, r.Placements, 5)
	calm, shared, dedicated, mixed := r.Placements[0], r.Placements[1], r.Placements[3], r.Placements[4]
	undisturbed := calm.Tenants[0]
	require.Equal(t, undisturbed, dedicated.Tenants[0])
	require.Positive(t, dedicated.Tenants[1].Throttled)
	apart := mixed.Tenants[1]
	require.Zero(t, apart.Throttled)
	require.Equal(t, apart.Offered, apart.Accepted)
	require.Equal(t, undisturbed.WriteP99, apart.WriteP99)
	for _, flooded := range []loadtest.PlacedTenants{shared.Tenants[0], mixed.Tenants[0]} {
		require.Positive(t, flooded.Throttled)
		require.Less(t, flooded.Accepted, 0.7*flooded.Offered)
		require.Greater(t, flooded.WriteP99, 100*undisturbed.WriteP99)
		require.Greater(t, flooded.QueryP99, 100*undisturbed.QueryP99)
	}

	var printed bytes.Buffer
	require.NoError(t, loadtest.Print(&printed, r))
	_, table, ok := strings.Cut(printed.String(), "All is modelled.\n\n")
	require.True(t, ok, printed.String())
	table, _, ok = strings.Cut(table, "\n\n")
	require.True(t, ok)
	const page = "../../../docs/operate/tenants.md"
	const begin, end = "<!-- make placements: begin -->\n```\n", "\n```\n<!-- end -->"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	was, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+table+end+after), 0o644))
		return
	}
	require.Equal(t, was, table, "make placements writes it anew")
}
