// Package headhttp carries store.Heads over HTTP, from ingesters to queriers: Handler serves the heads of one process,
// Client asks all processes at once. docs/internals/format/heads.md has every byte.
//
// An answer is a stream of messages: first every partition's position, stored chains and containers, as of one
// moment; then their rows, in columns, made and sent as they are read; then a mark that says the answer is whole. A
// stream without the mark is an error of the rows that are missing, never an answer without them.
//
// The port is for queriers only: a shared secret, or mutual TLS, or both, authenticate them. The package knows nothing
// of how bins are kept or how answers are merged.
package headhttp

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store"
	"binnacle/internal/wire/bytesread"
	"binnacle/internal/wire/jsonbody"
)

// HandlerConfig is what a handler needs.
type HandlerConfig struct {
	Heads store.Heads
	Bins  http.Handler // serves what the process holds, for operators; nil: nothing does
	// Secret returns the bearer token that a request must have; it is called for each request. An empty one, or nil, lets
	// in everybody who reaches the port: mutual TLS, or one machine.
	Secret func() string
	// StallTimeout is how long the other side may take to accept a part of an answer; default 10 s.
	StallTimeout time.Duration
	Logger       *slog.Logger // slog.Default
}

const defaultStall = 10 * time.Second

// maxRequest bounds a request's body: some ten thousand device ids and as many metrics.
const maxRequest = 8 << 20

// Handler serves the heads of a process. It belongs on a port that only queriers reach.
func Handler(cfg HandlerConfig) http.Handler {
	cfg.StallTimeout = cmp.Or(cfg.StallTimeout, defaultStall)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+headsPath, cfg.guarded(cfg.heads))
	mux.HandleFunc("POST "+devicesPath, cfg.guarded(cfg.devices))
	mux.HandleFunc("POST "+updatesPath, cfg.guarded(cfg.updates))
	if cfg.Bins != nil {
		mux.HandleFunc("GET "+binsPath, cfg.trusted(cfg.Bins.ServeHTTP))
	}
	return mux
}

func (cfg HandlerConfig) trusted(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if cfg.Secret != nil {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if secret := cfg.Secret(); secret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(secret)) != 1 {
				http.Error(w, "the secret of heads is missing or wrong", http.StatusUnauthorized)
				return
			}
		}
		serve(w, r)
	}
}

// guarded serves requests with the secret that accept the format.
func (cfg HandlerConfig) guarded(serve func(*exchange) error) http.HandlerFunc {
	return cfg.trusted(func(w http.ResponseWriter, r *http.Request) {
		if t, _, err := mime.ParseMediaType(r.Header.Get("Accept")); err == nil && t != contentType && t != "*/*" {
			http.Error(w, fmt.Sprintf("heads are answered as %s only", contentType), http.StatusNotAcceptable)
			return
		}
		x := &exchange{w: w, r: r, control: http.NewResponseController(w), stall: cfg.StallTimeout}
		if err := serve(x); err != nil && r.Context().Err() == nil {
			cfg.Logger.Warn("cannot send all rows of the head", "peer", r.RemoteAddr, "error", err)
		}
	})
}

// exchange is one request and its answer.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	stall   time.Duration
	out     *sender
}

func (x *exchange) body(into any) error {
	if err := jsonbody.Read(http.MaxBytesReader(x.w, x.r.Body, maxRequest), into); err != nil {
		http.Error(x.w, "the request is not understood: "+err.Error(), http.StatusBadRequest)
		return err
	}
	return nil
}

func (x *exchange) begin() {
	x.w.Header().Set("Content-Type", contentType)
	x.out = newSender(deadlined{x}, x.control.Flush)
}

// deadlined gives the other side a while for each part.
type deadlined struct{ x *exchange }

// Write implements io.Writer: each part must be taken before the other side counts as stalled.
func (d deadlined) Write(p []byte) (int, error) {
	err := d.x.control.SetWriteDeadline(time.Now().Add(d.x.stall))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return d.x.w.Write(p)
}

// finish ends the answer as whole, or with what is missing.
func (x *exchange) finish(missing error) error {
	if missing != nil {
		_ = x.out.sendText(faultKind, missing.Error())
	} else {
		_ = x.out.send(endKind, nil)
	}
	return errors.Join(missing, x.out.close())
}

func (cfg HandlerConfig) heads(x *exchange) error {
	var q store.HeadRequest
	if err := x.body(&q); err != nil {
		return err
	}
	q.Bins, q.Blocks = x.r.Header.Get(binsHeader) != "", x.r.Header.Get(blocksHeader) != ""
	q.Stored = x.r.Header.Get(storedHeader) != ""
	heads, missing := cfg.Heads.Heads(x.r.Context(), q)
	x.begin()
	for i := range heads {
		_ = x.out.send(partitionKind, func(m *message) { m.partition(&heads[i]) })
		if owner := heads[i].Owner; owner != 0 {
			_ = x.out.send(ownerKind, func(m *message) { m.word(&owner) })
		}
		if counts := heads[i].Stored; counts != nil {
			_ = x.out.send(storedKind, func(m *message) { m.stored(counts) })
		}
		if waits := heads[i].Deferrals; len(waits) > 0 { // an older reader must not take the head for whole
			_ = x.out.send(deferralsKind, func(m *message) { m.deferrals(&waits) })
		}
		for chains := heads[i].Chains; len(chains) > 0; {
			n := min(len(chains), chainsAtOnce)
			some := chains[:n]
			_ = x.out.send(chainsKind, func(m *message) { m.chains(&some) })
			chains = chains[n:]
		}
	}
	if missing != nil {
		_ = x.out.sendText(faultKind, missing.Error())
	}
	_ = x.out.send(sentKind, nil)
	if err := x.out.push(); err != nil {
		return err
	}
	return x.finish(rows(x.r.Context(), x.out, heads))
}

// chainsAtOnce is how many chains stand in one message.
const chainsAtOnce = 1024

// rows sends the rows of all heads. The error says why some are missing.
func rows(ctx context.Context, out *sender, heads []store.PartitionHead) error {
	for i := range heads {
		for r, err := range heads[i].Rows {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				switch {
				case r.Blocks != nil:
					out.beginRaw()
					err = out.send(blocksKind, func(m *message) { m.blocks(i, &r, nil) })
				case heads[i].Owner != 0:
					err = out.send(binKind, func(m *message) { m.bin(i, &r) })
				default:
					err = out.send(rowsKind, func(m *message) { m.rows(i, &r) })
				}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (cfg HandlerConfig) devices(x *exchange) error {
	var q struct {
		store.ListRequest
		Prefix string // earlier releases send it, and Limit, empty
		Limit  int
	}
	if err := x.body(&q); err != nil {
		return err
	}
	devices, missing := cfg.Heads.Devices(x.r.Context(), q.ListRequest)
	x.begin()
	for i := range devices {
		_ = x.out.send(deviceKind, func(m *message) { m.device(&devices[i]) })
	}
	return x.finish(missing)
}

// updatesAtOnce is how many devices stand in one message.
const updatesAtOnce = 4096

func (cfg HandlerConfig) updates(x *exchange) error {
	var q updatesRequest
	if err := x.body(&q); err != nil {
		return err
	}
	updates, missing := cfg.Heads.CatalogUpdates(x.r.Context(), q.Tenant)
	x.begin()
	_ = x.out.send(versionKind, func(m *message) { bytesread.Uint(&m.Codec, &updates.Version, math.MaxUint64) })
	all := catalog.NewIndex() // a page has a device once
	all.Add(catalog.Page{Entries: updates.Devices})
	for some := range slices.Chunk(slices.Collect(all.Select(nil, 0, all.Blocks()).Each), updatesAtOnce) {
		_, doc, err := catalog.Encode(catalog.Page{Entries: some})
		if err != nil {
			return errors.Join(err, x.finish(err))
		}
		_ = x.out.send(updatesKind, func(m *message) { m.Bytes(&doc) })
	}
	return x.finish(missing)
}

// drain reads the rest of a body, so that its connection can be used again, unless that is much.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 4<<10)
	_ = body.Close()
}

// maxBins bounds the report of one process, in bytes.
const maxBins = 16 << 20

// ProcessBins is what one process holds, as it reports it, or why it does not.
type ProcessBins struct {
	Process string          `json:"process"` // host:port
	Bins    json.RawMessage `json:"bins,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// Bins asks all processes at once for what they hold. The error says that some processes may not have been found.
func (c *Client) Bins(ctx context.Context, query url.Values) ([]ProcessBins, error) {
	return gather(ctx, c.cfg.Targets, func(target string) ([]ProcessBins, error) {
		_, name, _ := strings.Cut(target, "://")
		report := ProcessBins{Process: name}
		if err := c.bins(ctx, target+binsPath+"?"+query.Encode(), &report.Bins); err != nil {
			report.Error = err.Error()
		}
		return []ProcessBins{report}, nil
	})
}

func (c *Client) bins(ctx context.Context, url string, into *json.RawMessage) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, errTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	c.authorize(r)
	resp, err := c.cfg.HTTP.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBins+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %.512s", resp.Status, strings.TrimSpace(string(body)))
	case err != nil:
		return err
	case len(body) > maxBins:
		return fmt.Errorf("its report has more than %d bytes", maxBins)
	}
	if !json.Valid(body) {
		return fmt.Errorf("%w: its report is not JSON", errWire)
	}
	*into = body
	return nil
}
