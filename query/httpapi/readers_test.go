package httpapi_test

import (
	"bufio"
	"encoding/csv"
	"flag"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"binnacle/query/httpapi"

	"github.com/stretchr/testify/require"
)

var (
	binnacle = flag.String("readers.binnacle", "", "binnacle, of which the guide asks dev; none skips that")
	python   = flag.String("readers.python", "", "a Python with pyarrow and duckdb; none skips what needs one")
	rscript  = flag.String("readers.r", "", "Rscript; none skips what needs it")
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

// startDev starts binnacle dev with its defaults, but for addresses and data, and returns the address of its API once
// that has readings.
func startDev(t *testing.T) string {
	t.Helper()
	const free = "127.0.0.1:0"
	run := exec.CommandContext(t.Context(), *binnacle, "dev", "--data-dir", t.TempDir(), "--kafka", free, "--cosmos", free,
		"--api", free, "--admin", free)
	said, err := run.StdoutPipe()
	require.NoError(t, err)
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	require.NoError(t, run.Start())
	t.Cleanup(func() { _ = run.Wait() })
	for lines := bufio.NewScanner(said); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != "api" {
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, said) }()
		asked, err := http.NewRequest(http.MethodGet, words[1]+"/api/v1/readings?metric=velocity&limit=1", nil)
		require.NoError(t, err)
		asked.Header.Set(httpapi.TenantHeader, "acme")
		require.Eventually(t, func() bool {
			resp, err := http.DefaultClient.Do(asked)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return strings.Contains(string(body), `"velocity":`)
		}, time.Minute, 100*time.Millisecond)
		http.DefaultClient.CloseIdleConnections()
		return words[1]
	}
	t.Fatal("dev has not started")
	return ""
}

// Every block of the guide for readers in other languages works as it stands.
func TestReaderGuides(t *testing.T) {
	for language, program := range map[string]string{"python": *python, "r": *rscript} {
		t.Run(language, func(t *testing.T) {
			scripts := blocks(t, "../../docs/start/clients.md", language)
			if program == "" || *binnacle == "" {
				t.Skip("there is no program for " + language)
			}
			dir, api := t.TempDir(), startDev(t)
			for i, script := range scripts {
				path := filepath.Join(dir, "block")
				script = strings.ReplaceAll(script, "http://127.0.0.1:7070", api)
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

// A reader that is not Go's finds in a file of Parquet the rows of CSV.
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

// The request of the Power Query guide returns the columns that the guide converts.
func TestExcelGuide(t *testing.T) {
	s := newServer(t, nil)
	s.world.Chunk(record(1, "truck-0000", noon.Add(-time.Minute), nil, float("velocity", 50)))
	block := blocks(t, "../../docs/start/clients.md", "powerquery")[0]
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
