package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// Config says how a cluster is reached. What is left empty has the default that its comment names.
type Config struct {
	// Brokers are bootstrap addresses, host:port. One that answers is enough: it tells where the others are.
	Brokers []string

	// ClientID is what brokers log of this process; "binnacle".
	ClientID string

	TLS  TLS
	SASL SASL

	// EventHubs sets what Azure Event Hubs needs: TLS, port 9093, requests of at most a megabyte, no compression, a longer
	// patience, and PLAIN with the user $ConnectionString where PasswordFile holds the connection string. The namespace's
	// host stands for the cluster's id.
	EventHubs bool

	// ClusterID stands for the id that brokers tell of their cluster. It is needed where they tell none, and must never be
	// used for another cluster: offsets of one id are those of one log.
	ClusterID string

	// Compression of what is produced: none, gzip, snappy, lz4 or zstd; lz4, with EventHubs none.
	Compression string

	// MaxRequestBytes is what a produce request may take before compression, 0 what the broker takes; with EventHubs
	// 1,000,000. A record that does not fit is refused here, as brokers refuse it, where they would close the connection.
	MaxRequestBytes int

	// MaxUnpackedBytes bounds what a batch of a log may take in memory once it is unpacked; 64 MiB. One that would take more
	// is passed over and told as a Refusal.
	MaxUnpackedBytes int

	// MaxFetchedBytes bounds what all fetched batches take together until they are given back; 256 MiB.
	MaxFetchedBytes int64

	// MetadataAge is how old what is known of the cluster's layout may be; 6 s.
	MetadataAge time.Duration

	// RequestTimeout bounds one request; 10 s, with EventHubs 60 s.
	RequestTimeout time.Duration

	// Dial makes connections; nil is plain TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// TLS says how connections are encrypted.
type TLS struct {
	On         bool
	CA         string // file of certificates, PEM, that sign the brokers'; the system's
	Cert       string // file of the client's own certificate, PEM, read again for each connection
	Key        string // file of its key
	ServerName string // what the brokers' certificates are for; the host that is dialled
}

// SASL says who the client is.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; empty is no SASL.
	Mechanism string

	// User and PasswordFile are for PLAIN and SCRAM. The file is read again for each connection, so that a password can
	// change without a restart.
	User         string
	PasswordFile string

	// TokenFile and Token are for OAUTHBEARER, one of the two. The file is read, and Token called, for each connection.
	TokenFile string
	Token     TokenSource
}

// Mechanisms of SASL.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// What Event Hubs needs, by its documentation: a request of more than 1,046,528 bytes closes the connection, and requests
// may take a minute.
const (
	eventHubsUser    = "$ConnectionString"
	eventHubsPort    = "9093"
	eventHubsBytes   = 1_000_000
	eventHubsTimeout = time.Minute
)

const (
	defaultUnpacked = 64 << 20
	defaultFetched  = 256 << 20
	defaultTimeout  = 10 * time.Second
	defaultAge      = 6 * time.Second
	leastUnpacked   = 1 << 20
)

func (c Config) withDefaults() Config {
	c.ClientID = cmp.Or(c.ClientID, "binnacle")
	c.MaxUnpackedBytes = cmp.Or(c.MaxUnpackedBytes, defaultUnpacked)
	c.MaxFetchedBytes = cmp.Or(c.MaxFetchedBytes, defaultFetched)
	c.MetadataAge = cmp.Or(c.MetadataAge, defaultAge)
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
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("kafka: "+format, args...))
		}
	}
	check(len(c.Brokers) > 0, "the address of a broker is missing")
	c = c.withDefaults()
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		check(err == nil && host != "" && port != "", "%q is no address host:port", b)
	}
	_, known := codecs[c.Compression]
	check(known, "compression %q is none of none, gzip, snappy, lz4 and zstd", c.Compression)
	check(c.MaxRequestBytes >= 0, "requests of %d bytes", c.MaxRequestBytes)
	check(c.MaxUnpackedBytes >= leastUnpacked, "batches of %d bytes unpacked: at least %d", c.MaxUnpackedBytes, leastUnpacked)
	check(c.MaxFetchedBytes >= 0, "fetched batches of %d bytes", c.MaxFetchedBytes)
	check(c.MetadataAge > 0, "metadata of age %s", c.MetadataAge)
	check(c.RequestTimeout > 0, "requests that take %s", c.RequestTimeout)
	return errors.Join(append(faults, c.TLS.validate(), c.SASL.validate(c.TLS.On))...)
}

func (t TLS) validate() error {
	var faults []error
	if !t.On && (t.CA != "" || t.Cert != "" || t.Key != "" || t.ServerName != "") {
		faults = append(faults, errors.New("kafka: certificates are given, but TLS is off"))
	}
	if (t.Cert == "") != (t.Key == "") {
		faults = append(faults, errors.New("kafka: a client certificate needs its key, and a key its certificate"))
	}
	return errors.Join(faults...)
}

func (s SASL) validate(encrypted bool) error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("kafka: "+format, args...))
		}
	}
	byPassword := s.User != "" || s.PasswordFile != ""
	byToken := s.TokenFile != "" || s.Token != nil
	switch s.Mechanism {
	case "":
		check(!byPassword && !byToken, "credentials are given, but no SASL mechanism")
	case Plain, ScramSHA256, ScramSHA512:
		check(s.User != "" && s.PasswordFile != "", "SASL %s needs a user and a password file", s.Mechanism)
		check(!byToken, "SASL %s takes no token", s.Mechanism)
	case OAuthBearer:
		check((s.TokenFile != "") != (s.Token != nil), "SASL %s needs a token file or a source of tokens", s.Mechanism)
		check(!byPassword, "SASL %s takes no user and no password", s.Mechanism)
		check(encrypted, "SASL %s sends the token in clear: it needs TLS", s.Mechanism)
	default:
		check(false, "SASL mechanism %q is none of %s, %s, %s and %s", s.Mechanism, Plain, ScramSHA256, ScramSHA512, OAuthBearer)
	}
	return errors.Join(faults...)
}
