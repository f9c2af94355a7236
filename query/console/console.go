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
	"sync"
	"time"

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

// file is a file of the page, ready to be sent.
type file struct {
	kind       string
	plain      variant
	compressed func() *variant // made once, for the first client that takes it; nil where it is no shorter
}

// variant is a file's bytes in one encoding, and the name of just these bytes.
type variant struct {
	bytes []byte
	etag  string
}

func newVariant(b []byte) variant {
	sum := sha256.Sum256(b)
	return variant{b, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`}
}

// Handler serves the page at / and its files below Prefix. It is safe for any number of requests.
type Handler struct {
	files map[string]file // file at each path
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
		f := file{kind, newVariant(content), sync.OnceValue(func() *variant { return compress(content) })}
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
	return h, nil
}

// compress returns a file compressed, nil if that is no shorter.
func compress(content []byte) *variant {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the level is one of gzip's, and a buffer takes everything
	}
	if b.Len() >= len(content) {
		return nil
	}
	shorter := newVariant(b.Bytes())
	return &shorter
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
	v := f.plain
	w.Header().Set("Vary", "Accept-Encoding")
	if takesGzip(r.Header) {
		if shorter := f.compressed(); shorter != nil {
			v = *shorter
			w.Header().Set("Content-Encoding", "gzip")
		}
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", v.etag)
	r.Header.Del("Range") // the files are small and may be compressed: whole only
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(v.bytes))
}

// takesGzip reports whether a client takes gzip: it names it, and not with a weight of nothing.
func takesGzip(h http.Header) bool {
	for accepted := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(accepted, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
		return !found || strings.Trim(q, "0.") != ""
	}
	return false
}
