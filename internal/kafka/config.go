package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"binnacle/internal/settings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Config says how a cluster is reached. Its tags are package settings's.
type Config struct {
	Brokers []string `name:"kafka" help:"Addresses of Kafka brokers, host:port. One that answers is enough." default:"127.0.0.1:9092"`

	ClientID string `name:"kafka-client-id" help:"Client id that brokers log." default:"binnacle"`

	TLS  TLS  `kong:"embed"`
	SASL SASL `kong:"embed"`

	// EventHubs: the namespace's host stands for the cluster's id, and a connection string in the password file is
	// enough.
	EventHubs bool `help:"Connect to Azure Event Hubs: TLS, port 9093, requests of at most a megabyte, no compression, longer timeouts, and SASL PLAIN as $$ConnectionString with the password of --kafka-password-file."`

	// ClusterID must never be used for another cluster: offsets of one id are those of one log.
	ClusterID string `name:"kafka-cluster-id" help:"Id of the cluster, for brokers that report none. Default: the id that they report." placeholder:"ID"`

	Compression string `name:"kafka-compression" help:"Compression of produced batches: none, gzip, snappy, lz4 or zstd. Default: lz4; none for Event Hubs." placeholder:"CODEC"`

	// MaxRequestBytes: a record that does not fit is refused here, as brokers refuse it, where they would close the
	// connection.
	MaxRequestBytes int `name:"kafka-max-request" help:"Largest produce request before compression, in bytes. Default: the broker's limit; 1000000 for Event Hubs." placeholder:"BYTES"`

	// MaxUnpackedBytes: a larger batch is skipped and becomes a Refusal.
	MaxUnpackedBytes int `name:"kafka-max-batch-mb" help:"Largest uncompressed batch, in MiB. A larger one becomes a dead letter." type:"mib" default:"64"`

	// MaxFetchedBytes bounds the batches that are not released yet.
	MaxFetchedBytes int64 `name:"kafka-fetch-mb" help:"Memory for fetched batches that are not decoded yet, in MiB." type:"mib" default:"256"`

	RequestTimeout time.Duration `name:"kafka-timeout" help:"Timeout of a request to Kafka. Default: 10s; 1m for Event Hubs." placeholder:"DURATION"`

	MetadataAge time.Duration `kong:"-" default:"6s"` // the greatest age of cached metadata

	// Transport carries requests instead of connections, to a log in the same process. A consumer group still dials.
	Transport kafkago.RoundTripper `kong:"-"`
	// makes connections; nil is plain TCP
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `kong:"-"`
}

// TLS sets the encryption of connections.
type TLS struct {
	On         bool   `name:"kafka-tls" help:"Connect to Kafka with TLS."`
	CA         string `name:"kafka-ca" help:"File with the certificates that sign the brokers' certificates, PEM. Default: the system's." placeholder:"FILE"`
	Cert       string `name:"kafka-cert" help:"File with the client certificate, PEM. It is read for each connection. Default: none." placeholder:"FILE"`
	Key        string `name:"kafka-key" help:"File with the key of the client certificate, PEM." placeholder:"FILE"`
	ServerName string `name:"kafka-server-name" help:"Name in the brokers' certificates. Default: the host of the connection." placeholder:"HOST"`
}

// SASL sets the credentials of the client. Files are read for each connection, so that secrets can change without a
// restart.
type SASL struct {
	Mechanism    string `name:"kafka-sasl" help:"SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Default: none." placeholder:"MECHANISM"`
	User         string `name:"kafka-user" help:"User of PLAIN and SCRAM."`
	PasswordFile string `name:"kafka-password-file" help:"File with the password of PLAIN and SCRAM." placeholder:"FILE"`
	TokenFile    string `name:"kafka-token-file" help:"File with the token of OAUTHBEARER." placeholder:"FILE"`
}

// Mechanisms of SASL.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Settings for Event Hubs, by its documentation: a request of more than 1,046,528 bytes closes the connection, and
// requests may take a minute.
const (
	eventHubsUser    = "$ConnectionString"
	eventHubsPort    = "9093"
	eventHubsBytes   = 1_000_000
	eventHubsTimeout = time.Minute
)

const (
	defaultTimeout = 10 * time.Second
	leastUnpacked  = 1 << 20
)

func (c Config) withDefaults() Config {
	settings.Defaults(&c)
	if !c.EventHubs {
		c.Compression = cmp.Or(c.Compression, "lz4")
		c.RequestTimeout = cmp.Or(c.RequestTimeout, defaultTimeout)
		return c
	}
	c.TLS.On = true
	c.Compression = cmp.Or(c.Compression, "none")
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, eventHubsBytes)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, eventHubsTimeout)
	if c.SASL.Mechanism == "" && c.SASL.PasswordFile != "" {
		c.SASL.Mechanism, c.SASL.User = Plain, cmp.Or(c.SASL.User, eventHubsUser)
	}
	brokers := make([]string, len(c.Brokers))
	for i, b := range c.Brokers {
		if brokers[i] = b; !strings.Contains(b, ":") {
			brokers[i] = net.JoinHostPort(b, eventHubsPort)
		}
	}
	c.Brokers = brokers
	if host, _, err := net.SplitHostPort(strings.Join(brokers[:min(1, len(brokers))], "")); err == nil {
		c.ClusterID = cmp.Or(c.ClusterID, host)
	}
	return c
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults settings.Faults
	check := func(ok bool, format string, args ...any) { faults.Check(ok, "kafka: "+format, args...) }
	check(len(c.Brokers) > 0, "--kafka is empty: the address of a broker is needed")
	c = c.withDefaults()
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		check(err == nil && host != "" && port != "", "%q is not an address host:port", b)
	}
	_, known := codecs[c.Compression]
	check(known, "compression %q is not one of none, gzip, snappy, lz4 and zstd", c.Compression)
	check(c.MaxRequestBytes >= 0, "requests of %d bytes", c.MaxRequestBytes)
	check(c.MaxUnpackedBytes >= leastUnpacked, "batches of %d bytes unpacked: at least %d", c.MaxUnpackedBytes,
		leastUnpacked)
	check(c.MaxFetchedBytes >= 0, "fetched batches of %d bytes", c.MaxFetchedBytes)
	check(c.MetadataAge > 0, "metadata of age %s", c.MetadataAge)
	check(c.RequestTimeout > 0, "requests that take %s", c.RequestTimeout)
	check(c.TLS.On || c.TLS == TLS{}, "certificates need --kafka-tls")
	check((c.TLS.Cert == "") == (c.TLS.Key == ""), "a client certificate needs its key, and a key its certificate")
	c.SASL.validate(c.TLS.On, check)
	return faults.Err()
}

func (s SASL) validate(encrypted bool, check func(ok bool, format string, args ...any)) {
	byPassword := s.User != "" || s.PasswordFile != ""
	byToken := s.TokenFile != ""
	switch s.Mechanism {
	case "":
		check(!byPassword && !byToken, "credentials need a SASL mechanism")
	case Plain, ScramSHA256, ScramSHA512:
		check(s.User != "" && s.PasswordFile != "", "SASL %s needs a user and a password file", s.Mechanism)
		check(!byToken, "SASL %s takes no token", s.Mechanism)
	case OAuthBearer:
		check(byToken, "SASL %s needs a token file", s.Mechanism)
		check(!byPassword, "SASL %s takes no user and no password", s.Mechanism)
		check(encrypted, "SASL %s sends the token in clear: it needs TLS", s.Mechanism)
	default:
		check(false, "SASL mechanism %q is not one of %s, %s, %s and %s", s.Mechanism, Plain, ScramSHA256, ScramSHA512,
			OAuthBearer)
	}
}

// config returns nil when connections are not encrypted.
func (t TLS) config() (*tls.Config, error) {
	if !t.On {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of Kafka's authority: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificates of Kafka's authority: %s holds none", t.CA)
		}
	}
	if t.Cert == "" {
		return cfg, nil
	}
	own := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for Kafka: %w", err)
		}
		return &pair, nil
	}
	if _, err := own(); err != nil { // a fault shows at the start, not at the first connection
		return nil, err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	return cfg, nil
}

// mechanism returns nil when SASL is off.
func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "":
		return nil, nil
	case OAuthBearer:
		return bearer{s.TokenFile}, nil
	}
	m := byPassword{s}
	if _, _, err := m.Start(context.Background()); err != nil { // a fault shows at the start, not at the first connection
		return nil, err
	}
	return m, nil
}

// byPassword is PLAIN and SCRAM with a password that is read for each connection.
type byPassword struct{ sasl SASL }

// Name implements sasl.Mechanism.
func (m byPassword) Name() string { return m.sasl.Mechanism }

// Start implements sasl.Mechanism.
func (m byPassword) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	password, err := secret(m.sasl.PasswordFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the password for Kafka: %w", err)
	}
	var now sasl.Mechanism
	switch m.sasl.Mechanism {
	case Plain:
		now = plain.Mechanism{Username: m.sasl.User, Password: password}
	case ScramSHA256:
		now, err = scram.Mechanism(scram.SHA256, m.sasl.User, password)
	case ScramSHA512:
		now, err = scram.Mechanism(scram.SHA512, m.sasl.User, password)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prepare SASL %s: %w", m.sasl.Mechanism, err)
	}
	return now.Start(ctx)
}

// secret returns the content of a file without the line end that editors add.
func secret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return text, nil
}

// bearer is SASL OAUTHBEARER (RFC 7628) with the token in a file.
type bearer struct{ file string }

// Name implements sasl.Mechanism.
func (bearer) Name() string { return OAuthBearer }

// Start implements sasl.Mechanism.
func (b bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	token, err := secret(b.file)
	if err != nil {
		return nil, nil, fmt.Errorf("read the token for Kafka: %w", err)
	}
	return bearer{}, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
}

// Next implements sasl.StateMachine: a broker that accepts the token sends nothing, any other sends the reason.
func (bearer) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) > 0 {
		return false, nil, errors.New("Kafka refuses the token: " + string(challenge))
	}
	return true, nil, nil
}
