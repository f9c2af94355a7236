package blogexample_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/blogexample"
	"binnacle/internal/settings"
)

// The whole of it on the smallest blog: what the article published for V3 is what the emulator charges, within
// 25 %, with 27 posts, 20 comments, 50 likes and 100 newest posts as rows.
func TestPublishedCharges(t *testing.T) {
	r, err := blogexample.Run(t.Context(), blogexample.Config{Users: 8, PhysicalPartitions: 5, Seed: 1})
	require.NoError(t, err)
	require.Equal(t, blogexample.Rows{Q3: 27, Q4: 20, Q5: 50, Q6: 100}, r.Rows)

	patterns := map[string]blogexample.Pattern{}
	for _, p := range r.Patterns {
		patterns[p.Name] = p
		for _, charge := range p.Measured {
			require.Positive(t, charge)
		}
	}
	require.Len(t, patterns, 10)
	// Likes are loaded in batches here, so that 30 of 50 were made one after the other, which is cheap. The article's came
	// one by one: package ru holds 8.92 RU to the model's charge for likes that all lie apart, within 15 %.
	near := func(name string) float64 {
		if name == "Q5" {
			return 0.35
		}
		return 0.25
	}
	for _, name := range []string{"C1", "Q1", "C2", "Q2", "Q3", "Q4", "Q5", "Q6"} {
		require.InDelta(t, 0, patterns[name].Off(blogexample.V3), near(name), name)
	}
	// In V1 and V2 what does not fan out is as near, but for Q2 in V1. The article's two counts were charged as reading
	// what they count: with the post and its author its own figures for these make up 19.54 RU. Counts of a recorded
	// account come from the index, so that the emulator charges about half.
	q2, read := patterns["Q2"], 0.0
	for _, name := range []string{"Q1", "Q2", "Q4", "Q5"} {
		read += patterns[name].Published[blogexample.V2-blogexample.V1]
	}
	require.InEpsilon(t, q2.Published[0], read, 0.05)
	require.InDelta(t, 10.15, q2.Measured[0], 0.1)
	for _, name := range []string{"C1", "Q1", "C2", "C3", "Q4", "C4", "Q5"} {
		require.InDelta(t, 0, patterns[name].Off(blogexample.V1), 0.25, name)
	}
	for _, name := range []string{"C1", "Q1", "C2", "Q2", "Q4", "Q5"} {
		require.InDelta(t, 0, patterns[name].Off(blogexample.V2), near(name), name)
	}

	t.Run("both rules for a replace", func(t *testing.T) {
		require.Len(t, r.Rules, 4)
		for _, l := range r.Rules {
			require.InEpsilon(t, l.Published, l.One, 0.1, "the article's procedure paid one write: %v", l)
			require.Greater(t, l.Two, 1.3*l.Published, "documentation says delete and insert: %v", l)
			require.InDelta(t, ru.Stepped.Write(r.Sizes.Post, ru.NoIndex), l.Two-l.One, 0.05)
		}
	})
	t.Run("the page", func(t *testing.T) { pageIsCurrent(t, r) })
	t.Run("print", func(t *testing.T) {
		var b bytes.Buffer
		require.NoError(t, blogexample.Print(&b, r))
		for _, want := range []string{"619.41", "2063.54", "delete and insert", "physical partitions"} {
			require.Contains(t, b.String(), want)
		}
	})
}

// The page shows the output of a larger blog. What is charged does not depend on its size, but for the fan-outs of
// V1 and V2; the names that random users have make hundredths.
func pageIsCurrent(t *testing.T, r blogexample.Report) {
	text, err := os.ReadFile("../../../docs/start/demonstrate.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "RU, every property indexed")
	require.True(t, ok)
	for _, p := range r.Patterns {
		_, line, ok := strings.Cut(table, "\n  "+p.Name+" "+p.What)
		require.True(t, ok, p.Name)
		line, _, _ = strings.Cut(line, "\n")
		cells := strings.Fields(line) // three times published, modelled, off, %
		require.Len(t, cells, 12)
		for v := range 3 {
			if p.Name == "Q6" && v < 2 {
				continue
			}
			shown, err := strconv.ParseFloat(cells[4*v+1], 64)
			require.NoError(t, err)
			near := shown / 100
			if p.Name == "Q3" {
				near = shown / 5 // a user's posts are less scattered among those of fewer users
			}
			require.InDelta(t, p.Measured[v], shown, max(0.05, near),
				"%s V%d: print the page's table again", p.Name, v+1)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	var config blogexample.Config
	settings.Defaults(&config)
	require.NoError(t, config.Validate())
	_, err := blogexample.Run(t.Context(), blogexample.Config{Users: 7, PhysicalPartitions: 0})
	require.ErrorContains(t, err, "7 users: 8 to 2000 are allowed")
	require.ErrorContains(t, err, "0 physical partitions: 1 to 100 are allowed")
}
