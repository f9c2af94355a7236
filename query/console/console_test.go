package console_test

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"binnacle/query/console"

	"github.com/stretchr/testify/require"
)

// page are the files of the page by the path that they are served at.
func page(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, fs.WalkDir(console.Files, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := console.Files.ReadFile(name)
		out[console.Prefix+strings.TrimPrefix(name, "page/")] = string(text)
		return err
	}))
	out["/"] = out[console.Prefix+"index.html"]
	delete(out, console.Prefix+"index.html")
	for at, name := range map[string]string{console.HeatPath: "heat.html", console.OperatorsPath: "operators.html"} {
		out[at] = out[console.Prefix+name]
		delete(out, console.Prefix+name)
	}
	require.Greater(t, len(out), 15)
	return out
}

func handler(t *testing.T) http.Handler {
	t.Helper()
	h, err := console.New()
	require.NoError(t, err)
	mux := http.NewServeMux()
	h.Register(mux)
	mux.Handle(console.HeatPath, h)
	mux.Handle(console.OperatorsPath, h)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	return mux
}

func ask(h http.Handler, method, path string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

// Every file is served as it is, to anybody, under headers that let nothing in from elsewhere.
func TestPageIsServed(t *testing.T) {
	h := handler(t)
	types := map[string]string{
		"": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8",
	}
	for at, text := range page(t) {
		r := ask(h, http.MethodGet, at, nil)
		require.Equal(t, 200, r.StatusCode, at)
		require.Equal(t, text, body(t, r), at)
		if path.Base(at) != "LICENSE" {
			require.Equal(t, types[path.Ext(at)], r.Header.Get("Content-Type"), at)
		}
		policy := r.Header.Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'",
			"connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
			"require-trusted-types-for 'script'"} {
			require.Contains(t, strings.Split(policy, "; "), directive, at)
		}
		require.NotContains(t, policy, "unsafe")
		require.NotContains(t, policy, "*")
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control": "no-cache",
		} {
			require.Equal(t, want, r.Header.Get(name), at)
		}
		require.Empty(t, r.Cookies())
	}
}

// A browser that has a file already gets a 304; one that takes gzip gets it, under a name of its own.
func TestCachingAndCompression(t *testing.T) {
	h := handler(t)
	for at, text := range page(t) {
		plain := ask(h, http.MethodGet, at, nil)
		packed := ask(h, http.MethodGet, at, http.Header{"Accept-Encoding": {"br, gzip;q=0.8"}})
		require.NotEmpty(t, plain.Header.Get("Etag"))
		if len(text) > 1024 {
			require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"), at)
			require.Equal(t, "Accept-Encoding", plain.Header.Get("Vary"))
			require.NotEqual(t, plain.Header.Get("Etag"), packed.Header.Get("Etag"))
			z, err := gzip.NewReader(packed.Body)
			require.NoError(t, err)
			unpacked, err := io.ReadAll(z)
			require.NoError(t, err)
			require.Equal(t, text, string(unpacked))
		}
		for encoding, first := range map[string]*http.Response{"": plain, "gzip": packed} {
			again := ask(h, http.MethodGet, at, http.Header{"Accept-Encoding": {encoding},
				"If-None-Match": {first.Header.Get("Etag")}})
			require.Equal(t, 304, again.StatusCode, at)
			require.Empty(t, body(t, again))
		}
		for _, no := range []string{"gzip;q=0", "gzip; q=0.0", "identity", "x-gzip-not"} {
			require.Empty(t, ask(h, http.MethodGet, at, http.Header{"Accept-Encoding": {no}}).Header.Get("Content-Encoding"), no)
		}
		part := ask(h, http.MethodGet, at, http.Header{"Range": {"bytes=0-3"}})
		require.Equal(t, 200, part.StatusCode, "whole, or not at all")
		require.Empty(t, body(t, ask(h, http.MethodHead, at, nil)))
	}
}

// The page takes / and what is below its prefix; all other paths are left to others.
func TestOtherPathsAreNotServed(t *testing.T) {
	h := handler(t)
	for at, want := range map[string]int{
		"/": 200, "/console/nothing.js": 404, "/console/": 404, "/console/js/": 404, "/console/index.html": 404,
		"/api/v1/readings": http.StatusTeapot, "/prometheus/api/v1/query": http.StatusTeapot,
		"/index.html": http.StatusTeapot,
	} {
		r := ask(h, http.MethodGet, at, nil)
		require.Equal(t, want, r.StatusCode, at)
		if want == 404 {
			require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
			require.NotContains(t, body(t, r), "<")
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		r := ask(h, method, "/", nil)
		require.Equal(t, 405, r.StatusCode)
		require.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
	}
}

// Nothing is loaded from elsewhere, and nothing stands where the policy does not let it: every address in the page is
// one that is served here.
func TestPageLoadsNothingElse(t *testing.T) {
	files := page(t)
	addressed := regexp.MustCompile(`(?:src|href)="([^"]*)"|from "([^"]*)"|import\("([^"]*)"|\burl\("?([^)"]*)"?\)`)
	elsewhere := regexp.MustCompile(`(?i)\b(?:https?:)?//[a-z0-9][-a-z0-9]*\.[a-z]`)
	for at, text := range files {
		if path.Ext(at) == ".md" || path.Base(at) == "LICENSE" {
			continue
		}
		ours := strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "") // the name of SVG, which nobody asks
		if strings.Contains(at, "/vendor/") {
			ours = regexp.MustCompile(`(?s)/\*!.*?\*/`).ReplaceAllString(ours, "") // its author and home
		}
		require.Empty(t, elsewhere.FindString(ours), at)
		for _, m := range addressed.FindAllStringSubmatch(ours, -1) {
			to := m[1] + m[2] + m[3]
			if path.Ext(at) == ".css" {
				to += m[4]
			}
			switch {
			case to == "" || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "/api/"):
				continue
			case strings.HasPrefix(to, "."):
				to = path.Join(path.Dir(at), to)
			}
			_, here := files[to]
			require.True(t, here, "%s: there is no %s", at, to)
		}
		if !strings.Contains(at, "/vendor/") && path.Ext(at) == ".js" {
			require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function`, text, at)
			require.NotRegexp(t, `setAttribute\("style"|document\.cookie`, text, at)
		}
	}
	markup := files["/"]
	require.NotRegexp(t, `<style|style=|\son[a-z]+=|<script>|javascript:`, markup)
	require.Equal(t, strings.Count(markup, "<script"), strings.Count(markup, "<script src=")+
		strings.Count(markup, `<script type="module" src=`))
	require.NotRegexp(t, `acme|globex`, markup, "it says nothing of any tenant")
}

// The credential is kept as long as the tab, and nowhere else: no file but session.js touches the storage of the tab,
// and what is stored for longer is the colours, and the queries that were typed.
func TestPageStorageKeys(t *testing.T) {
	for at, text := range page(t) {
		if path.Ext(at) != ".js" || strings.Contains(at, "/vendor/") {
			continue
		}
		if path.Base(at) != "session.js" {
			require.NotContains(t, text, "sessionStorage", at)
		}
		for _, call := range regexp.MustCompile(`localStorage\.\w+\([^)]*\)`).FindAllString(text, -1) {
			if path.Base(at) == "history.js" {
				require.Contains(t, call, `"binnacle.queries"`, at)
			} else {
				require.Contains(t, call, `"binnacle.theme"`, at)
			}
		}
		require.NotContains(t, text, "indexedDB", at)
	}
}

// What is vendored is what was published, as VENDORED.md says.
func TestVendoredFiles(t *testing.T) {
	files := page(t)
	note := files["/console/vendor/uplot/VENDORED.md"]
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `[^`]+` \\| `([0-9a-f]{64})` \\|$").FindAllStringSubmatch(note, -1)
	require.Len(t, rows, 3)
	for _, row := range rows {
		sum := sha256.Sum256([]byte(files["/console/vendor/uplot/"+row[1]]))
		require.Equal(t, row[2], hex.EncodeToString(sum[:]), row[1])
	}
	require.Contains(t, files["/console/vendor/uplot/LICENSE"], "MIT License")
}

// The pages of operators are where operators are, and not beside the queries.
func TestPagesOfOperators(t *testing.T) {
	h, err := console.New()
	require.NoError(t, err)
	queries, operators := http.NewServeMux(), http.NewServeMux()
	h.Register(queries)
	h.RegisterOperators(operators)
	for _, at := range []string{console.HeatPath, console.OperatorsPath} {
		require.Equal(t, 404, ask(queries, http.MethodGet, at, nil).StatusCode, at)
		require.Equal(t, 200, ask(operators, http.MethodGet, at, nil).StatusCode, at)
	}
	require.Equal(t, 200, ask(operators, http.MethodGet, console.Prefix+"js/heat.js", nil).StatusCode)
	home := ask(operators, http.MethodGet, "/", nil)
	require.Equal(t, 302, home.StatusCode)
	require.Equal(t, console.OperatorsPath, home.Header.Get("Location"))
	require.Equal(t, 404, ask(operators, http.MethodGet, "/nothing", nil).StatusCode)
}
