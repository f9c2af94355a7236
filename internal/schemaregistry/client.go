// Package schemaregistry gets schemas from a registry that speaks the HTTP API of Confluent's: Confluent Schema
// Registry, Apicurio, Karapace, Redpanda. It keeps the answers, since a schema never changes under its id, so
// that a registry that is down holds up only records of schemas that were never seen before.
//
// It knows nothing of payloads: package decode reads them, and says which schema it lacks.
package schemaregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/settings"

	"golang.org/x/time/rate"
)

// Config is the address of a registry, and the credentials for it.
type Config struct {
	URL      string        `name:"schema-registry" help:"URL of the schema registry, such as http://127.0.0.1:8081. Default: none; messages that need a schema become dead letters." placeholder:"URL"`
	User     string        `name:"schema-registry-user" help:"User or API key for the schema registry." placeholder:"NAME"`
	Password string        `name:"schema-registry-password" help:"Password or API secret for the schema registry." placeholder:"SECRET" secret:""`
	Timeout  time.Duration `name:"schema-registry-timeout" help:"Timeout of a request to the schema registry." default:"10s"`
	// Missing is for how long it is believed that there is no schema of an id.
	Missing time.Duration `name:"schema-registry-missing" help:"Time for which a schema that the registry lacks is not requested again." default:"1m"`

	// Misses bounds the requests for ids that the registry lacks: each holds up its partition until it is answered.
	Misses int `name:"schema-registry-misses" help:"Schemas that the registry may lack in a minute. Beyond that messages of schemas that were never seen become dead letters without a request." default:"60"`

	Client *http.Client     `kong:"-"` // http.DefaultClient
	Now    func() time.Time `kong:"-"` // time.Now
}

// Client has a registry and its answers. It may be used by any number of goroutines.
type Client struct {
	cfg Config

	mu      sync.Mutex // guards below
	known   map[uint32]answer
	lacking map[uint32]answer    // ids without a schema, apart: made-up ids displace no schemas
	misses  *rate.Limiter        // limits the rate of answers without a schema
	judged  time.Time            // last time that a refused id counted as one without a schema
	refused map[uint32]time.Time // ids that it has refused without saying that there is no such schema, since when
	good    uint32               // an id that it had a schema of, if any
	any     bool
}

// refusedFor is for how long a registry must refuse an id until it counts as one that has no schema.
const refusedFor = 5 * time.Minute

// alikeFor is for how long it is believed of other ids, too, after that.
const alikeFor = time.Hour

type answer struct {
	schema decode.Schema
	until  time.Time // time to ask again; zero: never
}

// maxKnown bounds each of the client's maps. A full map is emptied at once.
const maxKnown = 1 << 14

// New makes a Client. It asks nothing.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("schema registry: %q is not the address of a server", cfg.URL)
	}
	settings.Defaults(&cfg)
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	cfg.URL = strings.TrimRight(cfg.URL, "/")
	return &Client{cfg: cfg, known: map[uint32]answer{}, lacking: map[uint32]answer{},
		misses:  rate.NewLimiter(rate.Every(time.Minute/time.Duration(cfg.Misses)), cfg.Misses),
		refused: map[uint32]time.Time{}}, nil
}

// Schema implements decode.Schemas: it returns the registry's answer for an id. Once the registry has lacked too many
// schemas within a minute, Schema reports a fault for every id without an answer.
func (c *Client) Schema(id uint32) (decode.Schema, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.known[id]; ok {
		return a.schema, true
	}
	now := c.cfg.Now()
	if a, ok := c.lacking[id]; ok && !now.After(a.until) {
		return a.schema, true
	}
	if c.misses.TokensAt(now) < 1 {
		return decode.Schema{Fault: fmt.Sprintf("it was not looked up: the registry lacks more than "+
			"%d schemas a minute (--schema-registry-misses)", c.cfg.Misses)}, true
	}
	return decode.Schema{}, false
}

// Fetch asks the registry for a schema, unless it is known. A missing schema is an answer, too, which Schema returns
// then. An error means that the registry gave no answer: ask again. A registry that refuses an id with 404 or 422 for
// five minutes, and serves other requests, has no such schema; its refusals of other ids in the next hour count at
// once.
func (c *Client) Fetch(ctx context.Context, id uint32) error {
	if _, ok := c.Schema(id); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	a, err := c.fetch(ctx, id)
	if errors.Is(err, errRefused) && c.refusedLong(id) && c.serves(ctx) {
		a, err = c.missing(err.Error()), nil
		c.judge()
	}
	if err != nil {
		return fmt.Errorf("fetch schema %d: %w", id, err)
	}
	c.keep(id, a)
	return nil
}

func (c *Client) keep(id uint32, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.until.IsZero() {
		c.misses.AllowN(c.cfg.Now(), 1)
		put(c.lacking, id, a)
		return
	}
	put(c.known, id, a)
	c.good, c.any = id, true
	delete(c.lacking, id)
	delete(c.refused, id)
}

func put[V any](m map[uint32]V, id uint32, v V) {
	if len(m) >= maxKnown {
		clear(m)
	}
	m[id] = v
}

// refusedLong records that an id was refused, and reports whether it has been for long enough, or another one was.
func (c *Client) refusedLong(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Now()
	since, known := c.refused[id]
	if !known {
		put(c.refused, id, now)
		since = now
	}
	return now.Sub(since) >= refusedFor || !c.judged.IsZero() && now.Sub(c.judged) < alikeFor
}

// judge notes that an id that was refused has no schema.
func (c *Client) judge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.judged = c.cfg.Now()
}

// serves reports whether the registry answers now: with a schema that it had before, or else with the types of schemas
// that it knows.
func (c *Client) serves(ctx context.Context) bool {
	c.mu.Lock()
	path, to := "/schemas/types", any(&[]string{})
	if c.any {
		path, to = schemaPath(c.good), &stored{}
	}
	c.mu.Unlock()
	return c.get(ctx, path, to) == nil
}

// missing returns the answer that there is no schema, which counts for a while.
func (c *Client) missing(why string) answer {
	return answer{decode.Schema{Fault: why}, c.cfg.Now().Add(c.cfg.Missing)}
}

func schemaPath(id uint32) string { return "/schemas/ids/" + strconv.FormatUint(uint64(id), 10) }

func (c *Client) fetch(ctx context.Context, id uint32) (answer, error) {
	var s stored
	err := c.get(ctx, schemaPath(id), &s)
	if errors.Is(err, errMissing) {
		return c.missing(err.Error()), nil
	}
	if err != nil {
		return answer{}, err
	}
	w := walk{client: c, done: map[reference]bool{}}
	out := decode.Schema{Type: s.Type, Text: s.Schema}
	if out.Type == "" {
		out.Type = "AVRO"
	}
	switch err := w.references(ctx, s.References, 0); {
	case errors.Is(err, errMissing), errors.Is(err, errReferences):
		return c.missing(err.Error()), nil
	case err != nil:
		return answer{}, err
	}
	out.References = w.texts
	return answer{schema: out}, nil
}

// stored is a schema as the registry answers.
type stored struct {
	Schema     string      `json:"schema"`
	Type       string      `json:"schemaType"`
	References []reference `json:"references"`
}

type reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// The bounds of what one schema may refer to.
const (
	maxReferences = 100
	maxNesting    = 20
)

var (
	errMissing    = errors.New("the registry has none")
	errRefused    = errors.New("the registry refuses the request")
	errReferences = errors.New("it refers to too many others, or to itself")
)

// walk collects the schemas to which one refers, each behind those to which it refers itself.
type walk struct {
	client *Client
	done   map[reference]bool
	texts  []string
}

func (w *walk) references(ctx context.Context, all []reference, depth int) error {
	if depth > maxNesting {
		return errReferences
	}
	for _, r := range all {
		r.Name = ""
		if w.done[r] {
			continue
		}
		if len(w.texts) >= maxReferences {
			return errReferences
		}
		var s stored
		path := fmt.Sprintf("/subjects/%s/versions/%d", url.PathEscape(r.Subject), r.Version)
		if err := w.client.get(ctx, path, &s); err != nil {
			return fmt.Errorf("version %d of %q: %w", r.Version, r.Subject, err)
		}
		if err := w.references(ctx, s.References, depth+1); err != nil {
			return err
		}
		w.done[r] = true
		w.texts = append(w.texts, s.Schema)
	}
	return nil
}

// maxAnswer bounds the size of an answer.
const maxAnswer = 8 << 20

// get asks for something. It fails with errMissing when the registry says that there is no such thing.
func (c *Client) get(ctx context.Context, path string, to any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.URL+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json")
	if c.cfg.User != "" {
		req.SetBasicAuth(c.cfg.User, c.cfg.Password)
	}
	resp, err := c.cfg.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return failure(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, to); err != nil {
		return fmt.Errorf("the registry's answer: %w", err)
	}
	return nil
}

// failure returns the error of an answer without a schema. Only a registry's own codes mean at once that it lacks the
// schema: a 404 of a proxy in front of it says nothing about schemas. Only 404 and 422 ever do.
func failure(status int, body []byte) error {
	var said struct {
		Code    int    `json:"error_code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &said)
	switch said.Code {
	case 40401, 40402, 40403: // no such subject, version, schema
		return errMissing
	}
	err := fmt.Errorf("the registry answers %d: %.200s", status, said.Message)
	if status == http.StatusNotFound || status == http.StatusUnprocessableEntity {
		err = fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}
