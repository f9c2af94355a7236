package main_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBlogexample(t *testing.T) {
	t.Parallel()
	refused(t, []string{"blogexample", "--users=3"}, "3 users: 8 to 2000 are allowed")
	needsFull(t) // internal/lab/blogexample runs it in process
	p := start(t, "blogexample", "--users=8", "--ru-model=slope", "--json")
	require.Zero(t, p.wait(time.Minute), p.stderr.String())
	var report struct {
		Users    int    `json:"users"`
		Model    string `json:"ru_model"`
		Patterns []struct {
			Measured []float64 `json:"measured_ru"`
		} `json:"patterns"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &report))
	require.Equal(t, 8, report.Users)
	require.Equal(t, "slope", report.Model)
	require.Len(t, report.Patterns, 10)
	require.InDelta(t, 5.90, report.Patterns[0].Measured[0], 0.005)
}
