package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"binnacle/internal/retry"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"golang.org/x/sync/semaphore"
)

// Client is a client of one cluster. It is safe for any number of callers.
type Client struct {
	cfg    Config
	api    *kafkago.Client // has a timeout for each request; requests to its Transport set their own
	dialer *kafkago.Dialer
	codec  kafkago.Compression
	unpack *unpacker
	budget *semaphore.Weighted // memory of fetched batches until they are released
}

// ErrNoClusterID is the error where brokers report no id of their cluster: offsets would belong to no log.
var ErrNoClusterID = errors.New("the brokers report no cluster id: set one with --kafka-cluster-id")

// idleTimeout is the time after which an unused connection is closed. Event Hubs cuts it after four minutes.
const idleTimeout = 30 * time.Second

// New returns a Client. It reads the files that the configuration names, and starts nothing.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	encryption, err := cfg.TLS.config()
	if err != nil {
		return nil, err
	}
	mechanism, err := cfg.SASL.mechanism()
	if err != nil {
		return nil, err
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: cfg.RequestTimeout}).DialContext
	}
	carrier := cfg.Transport
	if carrier == nil {
		carrier = transport{&kafkago.Transport{
			Dial: dial, DialTimeout: cfg.RequestTimeout, IdleTimeout: idleTimeout, MetadataTTL: cfg.MetadataAge,
			ClientID: cfg.ClientID, TLS: encryption, SASL: mechanism,
		}}
	}
	return &Client{
		cfg: cfg,
		api: &kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...), Timeout: cfg.RequestTimeout, Transport: carrier},
		dialer: &kafkago.Dialer{
			ClientID: cfg.ClientID, DialFunc: dial, Timeout: cfg.RequestTimeout, TLS: encryption, SASLMechanism: mechanism,
		},
		codec:  codecs[cfg.Compression],
		unpack: newUnpacker(cfg.MaxUnpackedBytes),
		budget: semaphore.NewWeighted(max(cfg.MaxFetchedBytes, int64(maxAnswerBytes(cfg.MaxUnpackedBytes)))),
	}, nil
}

// Close closes unused connections; the others close after use.
func (c *Client) Close() {
	if t, ok := c.api.Transport.(transport); ok {
		t.CloseIdleConnections()
	}
}

// Brokers returns the bootstrap addresses.
func (c *Client) Brokers() []string { return slices.Clone(c.cfg.Brokers) }

// Address returns the bootstrap addresses as text.
func (c *Client) Address() string { return strings.Join(c.cfg.Brokers, ",") }

// Dialer returns what a consumer group connects with, as this client does.
func (c *Client) Dialer() *kafkago.Dialer {
	own := *c.dialer
	return &own
}

// RequestTimeout returns the timeout of one request.
func (c *Client) RequestTimeout() time.Duration { return c.cfg.RequestTimeout }

// Topic returns a topic of the cluster, which need not exist.
func (c *Client) Topic(name string) *Topic { return &Topic{client: c, name: name} }

func (c *Client) clusterID(reported string) (string, error) {
	if id := cmp.Or(c.cfg.ClusterID, reported); id != "" {
		return id, nil
	}
	return "", ErrNoClusterID
}

func (c *Client) metadata(ctx context.Context, topic string) (cluster string, t kafkago.Topic, err error) {
	res, err := c.api.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err == nil {
		i := slices.IndexFunc(res.Topics, func(t kafkago.Topic) bool { return t.Name == topic })
		if i < 0 {
			err = kafkago.UnknownTopicOrPartition
		} else if err = res.Topics[i].Error; err == nil {
			return res.ClusterID, res.Topics[i], nil
		}
	}
	return "", t, fmt.Errorf("read metadata of topic %s: %w", topic, err)
}

// explain replaces the error of an unknown topic by the reason why the client knows no topic, if there is one: no
// connection, or refused credentials.
func (c *Client) explain(ctx context.Context, topic string, err error) error {
	if !errors.Is(err, protocol.ErrNoTopic) && !IsUnknownTopic(err) {
		return err
	}
	if _, _, why := c.metadata(ctx, topic); why != nil {
		return why
	}
	return err
}

// transport is kafka-go's Transport, made to wait for a late layout. kafka-go asks a broker for the layout of the
// cluster before the first request, and waits for that no longer than the greatest age of metadata. If the answer is
// late, it fails all requests until it asks again: those for the controller with BrokerNotAvailable, those for a
// partition with ErrNoTopic, though no broker has said so.
type transport struct{ *kafkago.Transport }

// layoutPauses are the pauses between looks for the layout. kafka-go asks for it again by itself.
var layoutPauses = retry.Policy{First: 5 * time.Millisecond, Max: 200 * time.Millisecond}

// RoundTrip implements kafkago.RoundTripper. It sends the request once the layout is known. A late answer of the
// cluster is waited for until the context ends; any other reason why there is no layout, such as a refused connection
// or refused credentials, fails the request at once.
func (t transport) RoundTrip(ctx context.Context, addr net.Addr, req kafkago.Request) (kafkago.Response, error) {
	err := layoutPauses.Do(ctx, func(ctx context.Context) error {
		_, err := t.Transport.RoundTrip(ctx, addr, &metadata.Request{TopicNames: []string{}}) // from the cache
		if err != nil && !isLate(err) {
			return retry.Permanent(err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t.Transport.RoundTrip(ctx, addr, req)
}

// isLate reports whether an error is that no answer came in time.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}
