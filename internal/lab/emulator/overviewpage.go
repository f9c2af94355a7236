package emulator

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"binnacle/internal/text/report"
)

// overviewPath is the page for people: all containers with their physical partitions.
const overviewPath = "/_emulator"

// overviewPolicy lets the page do what it does itself, and nothing else.
const overviewPolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"

//go:embed overview.html
var overviewHTML string

var overviewPage = template.Must(template.New("overview").Funcs(template.FuncMap{
	"rus": formatRUs, "count": report.Thousands[int64], "bytes": formatBytes,
	"heat": heatClass, "cell": describeCell, "key": shortKey,
	"percent": func(a, b float64) string { return strconv.FormatFloat(100*a/b, 'f', 0, 64) + " %" },
}).Parse(overviewHTML))

// serveOverview serves the page, or the same as JSON. It needs no authorization, so it is for those on
// the same machine only. It changes nothing and charges nothing.
func (s *Server) serveOverview(w http.ResponseWriter, r *http.Request) {
	switch {
	case !local(r.RemoteAddr):
		http.Error(w, "this page is for clients on the machine of the emulator: open it there", http.StatusForbidden)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page is read with GET", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Vary", "Accept")
	if r.URL.Query().Get("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, s.Overview())
		return
	}
	w.Header().Set("Content-Security-Policy", overviewPolicy)
	var body bytes.Buffer
	writePage(w, "text/html; charset=utf-8", &body, overviewPage.Execute(&body, s.Overview()))
}

// writeJSON answers one of the emulator's own pages with JSON.
func writeJSON(w http.ResponseWriter, v any) {
	var body bytes.Buffer
	writePage(w, "application/json", &body, json.NewEncoder(&body).Encode(v))
}

// writePage answers with what was made, unless that has failed.
func writePage(w http.ResponseWriter, kind string, body *bytes.Buffer, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body.Bytes()) // the client has gone: nothing is left to tell it
}

// local reports whether a request comes from this machine. In process it has no address.
func local(remote string) bool {
	if remote == "" {
		return true
	}
	at, err := netip.ParseAddrPort(remote)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// formatRUs returns request units with one decimal below 1,000, where it matters.
func formatRUs(v float64) string {
	if v < 999.95 && v != float64(int64(v)) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return report.Thousands(int64(v + 0.5))
}

func formatBytes(n int64) string {
	v, unit := float64(n), "B"
	for _, next := range []string{"KB", "MB", "GB", "TB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, next
	}
	if unit == "B" || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// shortKey returns the beginning of an effective partition key; the whole is up to 96 digits.
func shortKey(s string) string {
	switch {
	case s == "":
		return "start"
	case s == "FF":
		return "end"
	case len(s) > 8:
		return s[:8] + "…"
	}
	return s
}

// heatClass returns the colour of the i-th cell, from h0, nothing, to h5, a budget that was used up: the
// seconds after one that was overdrawn are somewhat below it. A mark says that requests were refused.
func heatClass(p PartitionOverview, i int) string {
	class := "h0"
	for level, least := range []float64{0, 0.1, 0.3, 0.6, 0.95} {
		if p.Heat[i] > least {
			class = "h" + strconv.Itoa(level+1)
		}
	}
	if p.Refused[i] > 0 {
		class += " t"
	}
	return class
}

// describeCell says in words what a cell shows; nothing for an idle one.
func describeCell(p PartitionOverview, i int) string {
	if p.Heat[i] == 0 && p.Refused[i] == 0 {
		return ""
	}
	ago := (len(p.Heat) - 1 - i) * p.CellSeconds
	text := fmt.Sprintf("%d s ago: %.0f %% of the budget in the busiest second", ago, 100*p.Heat[i])
	if p.Refused[i] > 0 {
		text += fmt.Sprintf(", %d answered 429", p.Refused[i])
	}
	return text
}
