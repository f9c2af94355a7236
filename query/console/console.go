// Package console serves the page on the address of the query API: charts, newest values and PromQL of a tenant in a
// browser. It serves the files of page/ as they are; docs/start/quickstart.md is its manual.
//
// It knows nothing of tenants and readings: every request gets the same bytes, and the page queries the API like any
// other client, with what its user has entered.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

// Paths of the pages that are for operators: their rooms, and the load by key and time.
const (
	OperatorsPath = "/operators"
	HeatPath      = "/heat"
)

// Prefix is where everything but the page itself is.
const Prefix = "/console/"

//go:embed page
var files embed.FS

// File returns a file of the page by its name below page/, for pages of other commands.
func File(name string) ([]byte, error) { return files.ReadFile("page/" + name) }

// policy lets the page load what comes from here and nothing else, and forbids to put it into a frame. Scripts and
// styles are files; markup is never made of strings.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// headers go with every answer.
var headers = map[string]string{
	"Content-Security-Policy":      policy,
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
	"Cache-Control":                "no-cache", // kept, and asked for again by its ETag
}

// types are the content types of the files: a machine's own tables differ.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8",
	".md":   "text/plain; charset=utf-8",
}

// file is a file of the page, ready to be sent, with a name for just these bytes.
type file struct {
	kind, etag string
	bytes      []byte
}

// Handler serves the page at / and its files below Prefix. It is safe for any number of requests.
type Handler struct {
	files      map[string]file  // file at each path
	compressed http.HandlerFunc // sends a file, compressed for clients that accept it
}

// New makes the handler.
func New() (*Handler, error) {
	h := &Handler{files: make(map[string]file)}
	err := fs.WalkDir(files, "page", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		kind, ok := types[path.Ext(name)]
		if !ok {
			return fmt.Errorf("%s: of what type is %q?", name, path.Ext(name))
		}
		sum := sha256.Sum256(content)
		f := file{kind, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, content}
		at := Prefix + strings.TrimPrefix(name, "page/")
		switch at {
		case Prefix + "index.html":
			at = "/"
		case Prefix + "heat.html":
			at = HeatPath
		case Prefix + "operators.html":
			at = OperatorsPath
		}
		h.files[at] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1024), gzhttp.CompressionLevel(gzip.BestCompression),
		gzhttp.SuffixETag(compressedETag), gzhttp.EnableZstd(false))
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	h.compressed = compress(http.HandlerFunc(h.send))
	return h, nil
}

// Register adds the paths of the page to a mux, and no others.
func (h *Handler) Register(mux *http.ServeMux) {
	mux.Handle("/{$}", h)
	mux.Handle(Prefix, h)
}

// RegisterOperators adds the paths of the pages of operators to a mux of theirs.
func (h *Handler) RegisterOperators(mux *http.ServeMux) {
	mux.Handle("GET /{$}", http.RedirectHandler(OperatorsPath, http.StatusFound))
	mux.Handle(OperatorsPath, h)
	mux.Handle(HeatPath, h)
	mux.Handle(Prefix, h)
}

// ServeHTTP implements http.Handler. It needs no credential.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	f, ok := h.files[r.URL.Path]
	if !ok {
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "allowed are GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", f.etag)
	r.Header.Del("Range") // the files are small and may be compressed: whole only
	h.compressed(w, r)
}

// compressedETag ends the ETag of a compressed file.
const compressedETag = "-gzip"

// send sends a file, or says that the client has it, compressed or not.
func (h *Handler) send(w http.ResponseWriter, r *http.Request) {
	known := r.Header.Get("If-None-Match")
	r.Header.Set("If-None-Match", strings.ReplaceAll(known, compressedETag+`"`, `"`))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.files[r.URL.Path].bytes))
}
