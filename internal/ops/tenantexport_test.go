package ops_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"binnacle/internal/ops"

	"github.com/stretchr/testify/require"
)

// exportAPI answers an export: six devices, of which one answer has at most two, with two readings of each on two days.
type exportAPI struct {
	mu    sync.Mutex
	trick func(path string, devices []string, n int) (status int, breakOff, incomplete bool)
	asked int // requests so far
	most  int // devices of one answer
}

func (a *exportAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = r.ParseForm()
	devices := r.Form["device"]
	if len(devices) == 0 {
		devices = []string{"a", `b"q`, "c", "d", "e", "f"}
	}
	a.asked++
	status, breakOff, incomplete := 0, false, false
	if a.trick != nil {
		status, breakOff, incomplete = a.trick(r.URL.Path, devices, a.asked)
	}
	if r.URL.Path == "/api/v1/readings" && len(devices) > a.most && status == 0 {
		status = http.StatusUnprocessableEntity
	}
	if status > 0 {
		http.Error(w, "refused", status)
		return
	}
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	switch r.URL.Path {
	case "/api/v1/devices":
		var list []map[string]any
		for _, d := range devices {
			list = append(list, map[string]any{"device": d, "tags": map[string]string{"site": d}, "first": day.UnixMilli(),
				"last": day.AddDate(0, 0, 2).UnixMilli()})
		}
		page := map[string]any{"devices": list}
		if incomplete {
			page["incomplete"] = []string{"an ingester does not answer"}
		}
		_ = json.NewEncoder(w).Encode(page)
	case "/api/v1/annotations":
		_, _ = io.WriteString(w, "{}\n")
	default:
		from, err := time.Parse(time.DateOnly, r.Form.Get("from"))
		if err != nil || r.Form.Get("strict") != "true" || r.Form.Get("to") != from.AddDate(0, 0, 1).Format(time.DateOnly) {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		w.Header().Set("Trailer", "Binnacle-Complete")
		for _, d := range devices {
			name, _ := json.Marshal(d)
			fmt.Fprintf(w, `{"tenant":"acme","device":%s,"ts":%q,"values":{"v":%q}}`+"\n", name, from.Format(time.RFC3339),
				strings.Repeat("x", 70_000)) // longer than a buffer
			fmt.Fprintf(w, `{"tenant":"acme","device":%s,"ts":%q,"values":{"v":2}}`+"\n", name, from.Format(time.RFC3339))
		}
		if breakOff {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Binnacle-Complete", fmt.Sprint(!incomplete))
	}
}

// exportOf is what an export has left in a directory.
type exportOf struct {
	Finished *time.Time
	Files    []struct {
		Name, Day, SHA256 string
		Rows, Bytes       int64
	}
	messages []string // of all files
}

func readExport(t *testing.T, dir string) (x exportOf) {
	text, err := os.ReadFile(filepath.Join(dir, "export.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &x))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, len(x.Files)+1, "each file is listed")
	for _, f := range x.Files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name))
		require.NoError(t, err)
		sum := sha256.Sum256(text)
		require.Equal(t, f.SHA256, hex.EncodeToString(sum[:]))
		require.Len(t, text, int(f.Bytes))
		if f.Day == "" {
			continue
		}
		gz, err := gzip.NewReader(bytes.NewReader(text))
		require.NoError(t, err)
		plain, err := io.ReadAll(gz)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSuffix(string(plain), "\n"), "\n")
		require.Len(t, lines, int(f.Rows))
		x.messages = append(x.messages, lines...)
	}
	return x
}

// checkMessages compares the messages of an export with those of the API: each once, and each device has its tags.
func checkMessages(t *testing.T, messages []string) {
	seen, tagged := map[string]bool{}, map[string]bool{}
	for _, m := range messages {
		var message struct {
			Tenant, Device, TS string
			Values             map[string]any
			Tags               map[string]string
		}
		require.NoError(t, json.Unmarshal([]byte(m), &message))
		text, _ := message.Values["v"].(string)
		id := fmt.Sprintf("%s %s %v", message.Device, message.TS, len(text))
		require.False(t, seen[id], id)
		seen[id] = true
		if message.Tags != nil {
			require.Equal(t, message.Device, message.Tags["site"])
			tagged[message.Device] = true
		}
	}
	require.Len(t, seen, 6*3*2)
	require.Len(t, tagged, 6)
}

func export(t *testing.T, api *exportAPI, cfg ops.ExportConfig) error {
	server := httptest.NewServer(api)
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	cfg.Tenant, cfg.API, cfg.Pause = "acme", server.URL, time.Microsecond
	if cfg.Format == "" {
		cfg.Format = "ndjson"
	}
	return cfg.Run(t.Context(), ops.Env{Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)})
}

// What is too much for one answer is asked for in parts; answers that break off, are refused or are not complete are
// asked for again.
func TestExportInParts(t *testing.T) {
	dir := t.TempDir()
	kinds := map[string]int{}
	api := &exportAPI{most: 2, trick: func(path string, devices []string, _ int) (status int, breakOff, incomplete bool) {
		if path != "/api/v1/readings" || len(devices) > 2 {
			return 0, false, false
		}
		kinds["all"]++
		switch n := kinds["all"]; {
		case n%7 == 1:
			return http.StatusServiceUnavailable, false, false
		case n%7 == 3, n%7 == 4:
			return 0, true, false
		case n%7 == 5:
			return 0, false, true
		}
		return 0, false, false
	}}
	require.NoError(t, export(t, api, ops.ExportConfig{Out: dir}))
	x := readExport(t, dir)
	require.NotNil(t, x.Finished)
	checkMessages(t, x.messages)
	require.ErrorContains(t, export(t, api, ops.ExportConfig{Out: dir}), "--resume")
	require.ErrorContains(t, export(t, api, ops.ExportConfig{Out: dir, Resume: true}), "was finished")
}

// An export that ends anywhere goes on with --resume, and has all.
func TestExportGoesOn(t *testing.T) {
	for dies := 1; ; dies++ {
		dir := t.TempDir()
		api := &exportAPI{most: 2, trick: func(_ string, _ []string, n int) (status int, breakOff, incomplete bool) {
			if n == dies {
				status = http.StatusForbidden
			}
			return status, false, false
		}}
		err := export(t, api, ops.ExportConfig{Out: dir})
		if err == nil {
			require.Greater(t, dies, 20)
			return
		}
		require.ErrorContains(t, err, "403")
		require.NoError(t, export(t, api, ops.ExportConfig{Out: dir, Resume: true}))
		x := readExport(t, dir)
		require.NotNil(t, x.Finished)
		checkMessages(t, x.messages)
	}
}

// What fails for a moment is asked for again: a list of devices that is not complete, and an answer that came too late
// and can't be split.
func TestExportAsksAgain(t *testing.T) {
	dir := t.TempDir()
	api := &exportAPI{most: 2, trick: func(path string, _ []string, n int) (status int, breakOff, incomplete bool) {
		switch {
		case n == 1 || path == "/api/v1/readings" && n%2 == 0:
			return http.StatusGatewayTimeout, false, false
		case n == 2:
			return 0, false, true
		}
		return 0, false, false
	}}
	require.NoError(t, export(t, api, ops.ExportConfig{Out: dir, Device: []string{"c"}}))
	require.Len(t, readExport(t, dir).messages, 6)
}

// An export of something that is not there, or that stays incomplete, fails and says why.
func TestExportFails(t *testing.T) {
	api := &exportAPI{most: 6}
	for want, cfg := range map[string]ops.ExportConfig{
		`no device "z"`:      {Device: []string{"z", "a"}},
		"--from \"x\"":       {From: "x"},
		"is not before --to": {From: "2026-11-02", To: "2026-11-02"},
		"not complete":       {Device: []string{"a"}},
		"answers 403":        {From: "2026-11-03"},
		"answers 422":        {Device: []string{"c"}, From: "2026-11-02"},
	} {
		cfg.Out = t.TempDir()
		api.trick = func(path string, devices []string, _ int) (status int, breakOff, incomplete bool) {
			switch {
			case path != "/api/v1/readings":
			case cfg.From == "2026-11-03":
				return http.StatusForbidden, false, false
			case cfg.From == "2026-11-02":
				return http.StatusUnprocessableEntity, false, false
			}
			return 0, false, len(devices) == 1 && devices[0] == "a"
		}
		require.ErrorContains(t, export(t, api, cfg), want)
	}
	err := ops.ExportConfig{Tenant: "acme", Out: t.TempDir(), API: "127.0.0.1:1", Format: "ndjson"}.Run(t.Context(),
		ops.Env{Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "--api is the address")
}
