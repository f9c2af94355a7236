// Package queryclient asks a querier from a terminal, and prints its answer: why readings have gaps.
package queryclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
)

// Querier is the address of a querier, and the tenant and token of the request. Its tags are package settings's.
type Querier struct {
	Tenant    string        `help:"Tenant to query. Default: the tenant of the token."`
	At        string        `name:"api" help:"Address of the query API, host:port or URL." default:"127.0.0.1:7070" group:"Query API"`
	TokenFile string        `help:"File with a bearer token. Default: none." placeholder:"FILE" group:"Query API"`
	Timeout   time.Duration `help:"Timeout of the request." default:"1m" group:"Query API"`

	HTTP *http.Client `kong:"-"` // nil: http.DefaultClient
}

// Validate reports every fault that can be seen without asking.
func (q Querier) Validate() error {
	var faults settings.Faults
	if q.Tenant != "" {
		faults.Named("--tenant", telemetry.CheckTenant(q.Tenant))
	}
	faults.Check(q.Timeout > 0, "--timeout %s is not above 0", q.Timeout)
	return faults.Err()
}

// maxAnswer bounds the bytes read from an answer.
const maxAnswer = 256 << 20

// StatusError is an answer of another status than 200.
type StatusError struct {
	Status int
	text   string
}

// Error implements error. The text has what the process says is wrong.
func (e *StatusError) Error() string { return e.text }

// Get asks for a path and reads the answer, which it returns as it came, too.
func (q Querier) Get(ctx context.Context, path string, values url.Values, answer any) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.Timeout)
	defer cancel()
	err = q.Do(ctx, path, values, func(res *http.Response) error {
		if body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err == nil {
			err = json.Unmarshal(body, answer)
		}
		if err != nil {
			return fmt.Errorf("read the answer of %s: %w", q.At, err)
		}
		return nil
	})
	return body, err
}

// maxAddress is the length of values beyond which a request has them in a form.
const maxAddress = 4 << 10

// Do asks for a path, calls read with the answer, and closes its body. It fails with a StatusError for another
// status than 200.
func (q Querier) Do(ctx context.Context, path string, values url.Values, read func(*http.Response) error) error {
	at := strings.TrimRight(q.At, "/") + path
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	method, form := http.MethodGet, io.Reader(nil)
	if text := values.Encode(); len(text) > maxAddress {
		method, form = http.MethodPost, strings.NewReader(text)
	} else if text != "" {
		at += "?" + text
	}
	r, err := http.NewRequestWithContext(ctx, method, at, form)
	if err != nil {
		return fmt.Errorf("--api %s: %w", q.At, err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if q.Tenant != "" {
		r.Header.Set("X-Scope-OrgID", q.Tenant)
	}
	if q.TokenFile != "" {
		token, err := os.ReadFile(q.TokenFile)
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := q.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("ask the querier: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<12))
		var problem struct{ Detail string }
		_ = json.Unmarshal(body, &problem) // an answer of a proxy has no detail
		if res.StatusCode == http.StatusUnauthorized {
			problem.Detail += " (see --tenant and --token-file)"
		}
		return &StatusError{res.StatusCode, fmt.Sprintf("%s answers %s: %s", q.At, res.Status,
			cmp.Or(problem.Detail, strings.TrimSpace(string(body))))}
	}
	return read(res)
}
