package headhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/binning"
	"binnacle/internal/catalog"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/wire/bytesread"
)

// Targets returns the base URLs of all processes that serve heads, such as http://10.0.0.7:7072, as of now.
type Targets func(ctx context.Context) ([]string, error)

// ClientConfig is what a Client needs.
type ClientConfig struct {
	Targets Targets
	// HTTP has the TLS, and no timeout. Default: http.DefaultClient's transport.
	HTTP   *http.Client
	Secret func() string // bearer token, read at each request; nil or empty for none
	// Timeout bounds the time until a process has answered its positions; the rows are bounded by the context of the
	// call allows.
	Timeout time.Duration `default:"2s"`
}

// Client is store.Heads over all processes that serve heads.
type Client struct {
	cfg ClientConfig
	// owners has, by target, the owners of its last answer.
	owners    sync.Map
	receivers receivers
}

var _ store.Heads = (*Client)(nil)

// NewClient makes a Client. It sends nothing.
func NewClient(cfg ClientConfig) *Client {
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	settings.Defaults(&cfg)
	return &Client{cfg: cfg}
}

// Heads implements store.Heads. The rows of one process come over one connection, in the order of its partitions: after
// a later head an earlier one can't be read.
func (c *Client) Heads(ctx context.Context, q store.HeadRequest) ([]store.PartitionHead, error) {
	ask := func(target string) ([]store.PartitionHead, error) { return c.heads(ctx, target, q) }
	return gather(ctx, c.cfg.Targets, ask)
}

// Devices implements store.Heads.
func (c *Client) Devices(ctx context.Context, q store.ListRequest) ([]store.HeadDevice, error) {
	return gather(ctx, c.cfg.Targets, func(target string) ([]store.HeadDevice, error) { return c.devices(ctx, target, q) })
}

// gather asks all targets at once and joins what they answer, in their order.
func gather[T any](ctx context.Context, targets Targets, ask func(target string) ([]T, error)) ([]T, error) {
	names, err := targets(ctx)
	if err != nil {
		err = fmt.Errorf("find the ingesters: %w", err)
	}
	answers := make([][]T, len(names))
	errs := make([]error, len(names), len(names)+1)
	var asked sync.WaitGroup
	for i, target := range names {
		asked.Go(func() {
			if answers[i], errs[i] = ask(target); errs[i] != nil {
				errs[i] = fmt.Errorf("heads of %s: %w", target, errs[i])
			}
		})
	}
	asked.Wait()
	var out []T
	silent := store.SilentHeads{All: len(names)}
	for i, a := range answers {
		if out = append(out, a...); errs[i] != nil {
			silent.Silent++
		}
	}
	if silent.Silent > 0 {
		errs = append(errs, &silent)
	}
	return out, errors.Join(append(errs, err)...)
}

func (c *Client) heads(ctx context.Context, target string,
	q store.HeadRequest) (heads []store.PartitionHead, err error) {
	q.Known = c.knownAt(target, q.Known)
	headers := []string{blocksHeader}
	if q.Bins {
		headers = append(headers, binsHeader)
	}
	if q.Stored {
		headers = append(headers, storedHeader)
	}
	in, err := c.ask(ctx, target+headsPath, q, headers...)
	if err != nil {
		return nil, err
	}
	s := &rowStream{in: in, span: q.Range, passed: -1, schemas: binning.NewSchemas()}
	defer func() {
		if err != nil && len(heads) == 0 {
			in.close()
		}
	}()
	for {
		k, m, err := in.next()
		switch {
		case err != nil:
		case k == partitionKind:
			var h store.PartitionHead
			m.partition(&h)
			number := len(heads)
			h.Rows = func(yield func(store.HeadRows, error) bool) { s.rows(number, yield) }
			heads = append(heads, h)
		case k == chainsKind && len(heads) > 0:
			h := &heads[len(heads)-1]
			var some []store.HeadChain
			m.chains(&some)
			h.Chains = append(h.Chains, some...)
		case k == ownerKind && len(heads) > 0:
			m.word(&heads[len(heads)-1].Owner)
		case k == storedKind && len(heads) > 0:
			heads[len(heads)-1].Stored = &store.HeadStored{}
			m.stored(heads[len(heads)-1].Stored)
		case k == deferralsKind && len(heads) > 0:
			m.deferrals(&heads[len(heads)-1].Deferrals)
		case k == faultKind:
			s.missing = errors.Join(s.missing, fault(m))
		case k == sentKind:
			in.timer.Stop()
			context.AfterFunc(ctx, in.close)
			s.partitions = len(heads)
			if q.Bins {
				c.setOwners(target, heads)
			}
			if q.Range.From >= q.Range.To {
				s.read()
			}
			return heads, errors.Join(s.missing, s.err)
		default:
			err = unknownKind(k)
		}
		if err == nil && k != faultKind { // fault has read the text
			err = m.end()
		}
		if err != nil {
			heads = nil // without all positions an answer can't be complete
			return nil, in.explain(err)
		}
	}
}

// knownAt returns the known bins of the owners at a target: another process has no use for them.
func (c *Client) knownAt(target string, all []store.HeadKnown) []store.HeadKnown {
	owners, _ := c.owners.Load(target)
	here, _ := owners.([]uint64)
	return slices.DeleteFunc(slices.Clone(all), func(k store.HeadKnown) bool { return !slices.Contains(here, k.Owner) })
}

func (c *Client) setOwners(target string, heads []store.PartitionHead) {
	var here []uint64
	for i := range heads {
		here = append(here, heads[i].Owner)
	}
	c.owners.Store(target, here)
}

func (c *Client) devices(ctx context.Context, target string, q store.ListRequest) (out []store.HeadDevice, err error) {
	err = c.each(ctx, target+devicesPath, q, func(k kind, m *message) error {
		if k != deviceKind {
			return unknownKind(k)
		}
		var d store.HeadDevice
		m.device(&d)
		out = append(out, d)
		return m.end()
	})
	return out, err
}

// each asks for a path and calls take with the messages of the answer, up to its end or a fault.
func (c *Client) each(ctx context.Context, url string, request any, take func(kind, *message) error) error {
	in, err := c.ask(ctx, url, request)
	if err != nil {
		return err
	}
	defer in.close()
	for {
		k, m, err := in.next()
		switch {
		case err != nil:
		case k == faultKind:
			return fault(m)
		case k == endKind:
			in.release()
			return nil
		default:
			err = take(k, m)
		}
		if err != nil {
			return in.explain(err)
		}
	}
}

func unknownKind(k kind) error { return fmt.Errorf("%w: a message of kind %q", errWire, byte(k)) }

// updatesRequest asks for a store.HeadUpdates.
type updatesRequest struct{ Tenant string }

// CatalogUpdates implements store.Heads.
func (c *Client) CatalogUpdates(ctx context.Context, tenant string) (store.HeadUpdates, error) {
	var out store.HeadUpdates
	all, err := gather(ctx, c.cfg.Targets, func(target string) ([]store.HeadUpdates, error) {
		n, err := c.updates(ctx, target, updatesRequest{tenant})
		return []store.HeadUpdates{n}, err
	})
	for _, n := range all {
		out.Devices = append(out.Devices, n.Devices...)
		out.Version += n.Version
	}
	return out, err
}

func (c *Client) updates(ctx context.Context, target string, q updatesRequest) (out store.HeadUpdates, err error) {
	err = c.each(ctx, target+updatesPath, q, func(k kind, m *message) error {
		switch k {
		case updatesKind:
			p, err := catalog.Decode("", bytes.Clone(m.Reader.Bytes()))
			if err != nil {
				return err
			}
			out.Devices = append(out.Devices, p.Entries...)
		case versionKind:
			bytesread.Uint(&m.Codec, &out.Version, math.MaxUint64)
		default:
			return unknownKind(k)
		}
		return m.end()
	})
	return out, err
}

func fault(m *message) error {
	text := m.Reader.Text()
	if err := m.end(); err != nil {
		return err
	}
	return errors.New(text)
}

// answer is one answer being read.
type answer struct {
	*receiver
	body   io.ReadCloser
	timer  *time.Timer // ends the request unless it is stopped
	cancel context.CancelCauseFunc
	cause  context.Context
	once   sync.Once
}

var errTimeout = errors.New("no answer in time")

// ask sends a request with headers that say yes, and returns the answer's messages. The answer must be closed.
func (c *Client) ask(ctx context.Context, url string, request any, headers ...string) (*answer, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	bound, cancel := context.WithCancelCause(ctx)
	a := &answer{cancel: cancel, cause: bound, timer: time.AfterFunc(c.cfg.Timeout, func() { cancel(errTimeout) })}
	r, err := http.NewRequestWithContext(bound, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		a.close()
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", contentType)
	for _, name := range headers {
		r.Header.Set(name, "yes")
	}
	c.authorize(r)
	resp, err := c.cfg.HTTP.Do(r)
	if err != nil {
		err = a.explain(err)
		a.close()
		return nil, err
	}
	a.body = resp.Body
	if err := refusal(resp); err != nil {
		a.close()
		return nil, err
	}
	if a.receiver, err = c.receivers.read(resp.Body); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (c *Client) authorize(r *http.Request) {
	if c.cfg.Secret != nil {
		if secret := c.cfg.Secret(); secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
	}
}

func refusal(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || t != contentType {
		return fmt.Errorf("%w: its content type is %q", errWire, resp.Header.Get("Content-Type"))
	}
	return nil
}

// explain returns why the request was ended, else err.
func (a *answer) explain(err error) error {
	if cause := context.Cause(a.cause); cause != nil {
		return cause
	}
	return err
}

// close ends the answer. Any goroutine may call it; a read under way fails.
func (a *answer) close() {
	a.once.Do(func() {
		a.timer.Stop()
		a.cancel(context.Canceled)
		if a.body != nil {
			drain(a.body)
		}
	})
}

// rowStream has the rows of all partitions of one answer, one partition after another.
type rowStream struct {
	in         *answer
	span       telemetry.Range
	partitions int
	missing    error

	mu      sync.Mutex // held while reading; guards below
	passed  int        // the last partition that was asked for
	pending *store.HeadRows
	of      int // partition of pending
	schemas *binning.Schemas
	framer  binning.Framer
	over    bool // the stream has ended well
	err     error
}

var errOrder = errors.New("heads are read in their order, each once")

// rows yields the rows of one partition. Unread rows of partitions before it are dropped.
func (s *rowStream) rows(number int, yield func(store.HeadRows, error) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number <= s.passed {
		yield(store.HeadRows{}, errOrder)
		return
	}
	s.passed = number
	for {
		if s.pending == nil && !s.over && s.err == nil {
			s.read()
		}
		switch {
		case s.err != nil:
			yield(store.HeadRows{}, s.err)
			return
		case s.over, s.of > number:
			return
		}
		r := *s.pending
		s.pending = nil
		if s.of == number && !yield(r, nil) {
			return
		}
	}
}

func (s *rowStream) read() {
	k, m, err := s.in.next()
	switch {
	case err != nil:
		s.err = unexpectedEOF(s.in.explain(err))
	case k == rowsKind, k == binKind, k == blocksKind:
		of, r := 0, store.HeadRows{}
		switch k {
		case rowsKind:
			of = m.rows(of, &r)
		case binKind:
			of = m.bin(of, &r)
		case blocksKind:
			of = m.blocks(of, &r, s.schemas)
		}
		if s.err = m.end(); s.err == nil && r.Blocks != nil {
			r.Frame, s.err = s.framer.Frame(r.Blocks, s.span)
			r.Blocks = nil
		}
		if s.err == nil && (of < s.of || of >= s.partitions) {
			s.err = fmt.Errorf("%w: rows of partition %d", errWire, of)
		}
		s.of, s.pending = of, &r
	case k == endKind:
		s.over = true
		s.in.release()
		s.in.close()
	case k == faultKind:
		s.err = fault(m)
	default:
		s.err = unknownKind(k)
	}
}
