package architecture_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProseFaults(t *testing.T) {
	for source, fault := range map[string]string{
		"// plus returns the sum.\nfunc plus() {}":                 "",
		"// plus is the sum.\nfunc plus() {}":                      "does not open with its name and a verb",
		"// The sum.\nfunc plus() {}":                              "does not open with its name and a verb",
		"// plus also returns the sum.\nfunc plus() {}":            "",
		"// plus silently drops the rest.\nfunc plus() {}":         "",
		"type i interface {\n\t// Close is the end.\n\tClose()\n}": "does not open with its name and a verb",
		"// sum is what plus returned.\nvar sum int":               "",
		"// sum tells how much.\nvar sum int":                      `"tells" in a comment`,
		"var help = \"what there is\"":                             `"what there is" in a text`,
		"// sum is for the broker who asks.\nvar sum int":          `"who" of what is no person`,
		"// sum is for an operator who asks.\nvar sum int":         "",
		"// sum is a chain whose tail\n// moved.\nvar sum int":     `"whose" of what is no person`,
	} {
		faults, err := ProseFaults("x.go", "package x\n\n"+source+"\n")
		require.NoError(t, err)
		if fault == "" {
			require.Empty(t, faults, source)
			continue
		}
		require.Len(t, faults, 1, source)
		require.Contains(t, faults[0], fault, source)
	}
}

func TestManyParameters(t *testing.T) {
	faults, err := ManyParameters("x.go", `package x
func three(ctx context.Context, a, b int, c string) {}
func four(a, b int, c, d string) {}`)
	require.NoError(t, err)
	require.Equal(t, []string{"x.go:3:1: four has 4 parameters beside its context"}, faults)
}

// Tests of the rooms that a newcomer reads first keep the rules for words, not yet that of a comment's opening.
func TestTestsAreInPlainWords(t *testing.T) {
	var faults []string
	rooms := []string{"cmd", "binning", "ingest", "query", "sharding"}
	for _, f := range tracked(t) {
		room, _, _ := strings.Cut(f, "/")
		if !strings.HasSuffix(f, "_test.go") || !slices.Contains(rooms, room) {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, f))
		require.NoError(t, err)
		found, err := ProseFaults(f, string(source))
		require.NoError(t, err)
		for _, fault := range found {
			if !strings.Contains(fault, "does not open with its name") {
				faults = append(faults, fault)
			}
		}
	}
	require.Empty(t, faults)
}

// The tree keeps the rules for comments. Functions with many parameters become fewer, never more.
func TestTheTreeIsInPlainWords(t *testing.T) {
	const manyParameters = 65
	packages, err := Load(root)
	require.NoError(t, err)
	var prose, many []string
	for _, p := range packages {
		for name, source := range p.Sources {
			file := filepath.Join(p.Path, name)
			if strings.HasPrefix(p.Path, ".ci") {
				continue
			}
			faults, err := ProseFaults(file, source)
			require.NoError(t, err)
			prose = append(prose, faults...)
			functions, err := ManyParameters(file, source)
			require.NoError(t, err)
			many = append(many, functions...)
		}
	}
	require.Empty(t, prose)
	require.LessOrEqual(t, len(many), manyParameters, "at most three parameters beside a context: %s",
		strings.Join(many, "\n"))
}
