package httpapi_test

import (
	"encoding/csv"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	python  = flag.String("readers.python", "", "a Python with pyarrow and duckdb; none skips what needs one")
	rscript = flag.String("readers.r", "", "Rscript; none skips what needs it")
)

// blocks are the blocks of a language of a page, in order.
func blocks(t *testing.T, page, language string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, ended := strings.Cut(part, "\n```")
		require.True(t, ended)
		out = append(out, block)
	}
	require.NotEmpty(t, out)
	return out
}

// What the guide for readers in other languages says works.
func TestReaderGuides(t *testing.T) {
	for language, program := range map[string]string{"python": *python, "r": *rscript} {
		t.Run(language, func(t *testing.T) {
			scripts := blocks(t, "../../docs/guides/python.md", language)
			if program == "" {
				t.Skip("there is no program for " + language)
			}
			s := newServer(t, nil)
			s.fill()
			s.world.Now = s.world.Now.Add(1)
			dir := t.TempDir()
			for i, script := range scripts {
				path := filepath.Join(dir, "block")
				script = strings.ReplaceAll(script, "http://127.0.0.1:7070", s.URL)
				require.NoError(t, os.WriteFile(path, []byte(script), 0o600))
				run := exec.CommandContext(t.Context(), program, path)
				run.Dir = dir
				said, err := run.CombinedOutput()
				require.NoError(t, err, "block %d: %s", i, said)
				require.NotEmpty(t, said)
				t.Logf("%s", said)
			}
		})
	}
}

// A reader that is not Go's finds in a file of Parquet what there is in CSV.
func TestParquetForOtherReaders(t *testing.T) {
	if *python == "" {
		t.Skip("there is no Python")
	}
	s := newServer(t, nil)
	s.fill()
	dir := t.TempDir()
	for format, name := range map[string]string{"parquet": "a.parquet", "csv&layout=long": "a.csv"} {
		a := s.get(t, "/api/v1/readings?format="+format)
		require.Equal(t, 200, a.status)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(a.body), 0o600))
	}
	said, err := exec.CommandContext(t.Context(), *python, "testdata/parquet.py", dir).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "10 values are the same")
}

// What Power Query is told to ask is answered with the columns that it is told to convert.
func TestExcelGuide(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	block := blocks(t, "../../docs/guides/python.md", "powerquery")[0]
	path := regexp.MustCompile(`RelativePath = "(.+?)"`).FindStringSubmatch(block)[1]
	asked := url.Values{}
	query := regexp.MustCompile(`Query = \[(.+)\]`).FindStringSubmatch(block)[1]
	for _, pair := range regexp.MustCompile(`(\w+) = "(.+?)"`).FindAllStringSubmatch(query, -1) {
		asked.Set(pair[1], pair[2])
	}
	a := s.get(t, "/"+path+"?"+asked.Encode())
	require.Equal(t, 200, a.status, a.body)
	lines, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	require.NoError(t, err)
	require.Greater(t, len(lines), 1)
	types := regexp.MustCompile(`\{"(\w+)", type`).FindAllStringSubmatch(block, -1)
	require.Len(t, types, 4)
	for _, column := range types {
		require.Contains(t, lines[0], column[1])
	}
}
