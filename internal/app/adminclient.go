package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// AdminClient sets which processes `binnacle bins` and `binnacle limits` ask.
type AdminClient struct {
	Admin     []string `help:"Admin listeners of the processes that ingest, each host:port or a URL." default:"127.0.0.1:7071"`
	TokenFile string   `name:"admin-token-file" help:"File with the admin token of those processes. Processes on this machine need none. Default: no token." placeholder:"FILE"`
	Tenant    string   `help:"Show this tenant only. Default: all tenants." placeholder:"NAME"`
	JSON      bool     `name:"json" help:"Print the JSON of each process on a line."`
}

var errNoIngest = errors.New("this process does not ingest")

// adminReport is a report of an ingester that its admin listener serves as JSON.
type adminReport[T any] struct {
	name  string
	path  string
	query url.Values
	print func(w io.Writer, admin string, report T) error
}

func (a adminReport[T]) run(ctx context.Context, c AdminClient, env Env) error {
	for i, admin := range c.Admin {
		body, err := c.get(ctx, admin, a.path+"?"+a.query.Encode())
		var report T
		if err == nil {
			err = json.Unmarshal(body, &report)
		}
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", a.name, admin, err)
		}
		switch {
		case c.JSON:
			_, err = env.Stdout.Write(body)
		case i > 0:
			fmt.Fprintln(env.Stdout)
			fallthrough
		default:
			err = a.print(env.Stdout, admin, report)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c AdminClient) get(ctx context.Context, admin, path string) ([]byte, error) {
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(admin, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	if err := authorize(r, c.TokenFile); err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, errNoIngest
	case resp.StatusCode != http.StatusOK:
		var problem struct{ Detail string }
		_ = json.Unmarshal(body, &problem) // other text than JSON is shown as it is
		return nil, fmt.Errorf("%s: %s", resp.Status, cmp.Or(problem.Detail, strings.TrimSpace(string(body))))
	}
	return body, nil
}

func authorize(r *http.Request, file string) error {
	if file == "" {
		return nil
	}
	token, err := watchSecret(file)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token.text())
	return nil
}
