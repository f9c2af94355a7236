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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

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
	case resp.StatusCode == http.StatusNotFound:
		return errors.New("it is of an earlier version, which does not report what it holds")
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
