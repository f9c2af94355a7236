package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"binnacle/internal/ops/queryclient"
)

// AdminClient sets which processes `binnacle bins` and `binnacle limits` ask.
type AdminClient struct {
	Admin     []string `help:"Admin listeners of the processes that ingest, each host:port or a URL." default:"127.0.0.1:7071"`
	TokenFile string   `name:"admin-token-file" help:"File with the admin token of those processes. Processes on this machine need none. Default: no token." placeholder:"FILE"`
	Tenant    string   `help:"Show this tenant only. Default: all tenants." placeholder:"NAME"`
	JSON      bool     `name:"json" help:"Print the JSON of each process on a line."`
}

var errNoIngest = errors.New("this process does not ingest")

// adminTimeout bounds a request to an admin listener.
const adminTimeout = time.Minute

// adminReport is a report of an ingester that its admin listener serves as JSON.
type adminReport[T any] struct {
	name  string
	path  string
	query url.Values
	print func(w io.Writer, admin string, report T) error
}

func (a adminReport[T]) run(ctx context.Context, c AdminClient, env Env) error {
	for i, admin := range c.Admin {
		var report T
		at := queryclient.Querier{At: admin, TokenFile: c.TokenFile, Timeout: adminTimeout}
		body, err := at.Get(ctx, a.path, a.query, &report)
		if refused, ok := errors.AsType[*queryclient.StatusError](err); ok && refused.Status == http.StatusNotFound {
			err = errNoIngest
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
