package kafka_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// certificate writes a certificate that signs itself, and its key.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool, pair tls.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	cert = file(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key = file(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	pair, err = tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return cert, key, pool, pair
}

func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func fake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.SeedTopics(1, topic))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// works checks a message, and a consumer group, which has connections of its own.
func works(t *testing.T, c *kafka.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Topic(topic).Produce(ctx, 0, []kafka.Message{message("k", "v")}); err != nil {
		return err
	}
	if got, err := c.Topic(topic).Fetch(ctx, 0, 0); err != nil || len(got.Records) == 0 {
		return errors.Join(err, errors.New("nothing is read"))
	}
	conn, err := c.Dialer().DialContext(ctx, "tcp", c.Brokers()[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.ReadPartitions(topic)
	return err
}

func TestPasswords(t *testing.T) {
	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			b := fake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "binnacle", "right"))
			password := file(t, "password", []byte("wrong\n"))
			cfg := kafka.Config{
				Brokers: b.ListenAddrs(), RequestTimeout: 3 * time.Second,
				SASL: kafka.SASL{Mechanism: mechanism, User: "binnacle", PasswordFile: password},
			}
			require.Error(t, works(t, connect(t, cfg)))
			c := connect(t, cfg)
			require.NoError(t, os.WriteFile(password, []byte("right\n"), 0o600))
			require.NoError(t, works(t, c), "the file is read for each connection")
		})
	}
}

func TestCertificates(t *testing.T) {
	cert, key, pool, pair := certificate(t)
	other, _, _, _ := certificate(t)
	b := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: pool}))
	cfg := kafka.Config{Brokers: b.ListenAddrs(), RequestTimeout: 3 * time.Second}
	for name, c := range map[string]struct {
		tls   kafka.TLS
		works bool
	}{
		"right":                    {kafka.TLS{On: true, CA: cert, Cert: cert, Key: key}, true},
		"another authority":        {kafka.TLS{On: true, CA: other, Cert: cert, Key: key}, false},
		"another server":           {kafka.TLS{On: true, CA: cert, Cert: cert, Key: key, ServerName: "kafka.example"}, false},
		"no certificate":           {kafka.TLS{On: true, CA: cert}, false},
		"the system's authorities": {kafka.TLS{On: true}, false},
		"no TLS":                   {kafka.TLS{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.TLS = c.tls
			err := works(t, connect(t, cfg))
			require.Equal(t, c.works, err == nil, err)
		})
	}
}

// kfake does not know OAUTHBEARER: what a broker would see is looked at on its way.
func TestTokens(t *testing.T) {
	cert, _, _, pair := certificate(t)
	b := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	b.ControlKey(kmsg.SASLHandshake.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		res := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if r.(*kmsg.SASLHandshakeRequest).Mechanism != kafka.OAuthBearer {
			res.ErrorCode = int16(kafkago.UnsupportedSASLMechanism)
		}
		return res, nil, true
	})
	b.ControlKey(kmsg.SASLAuthenticate.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		res := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		if string(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes) != "n,,\x01auth=Bearer token 2\x01\x01" {
			res.SASLAuthBytes = []byte(`{"status":"invalid_token"}`)
		}
		return res, nil, true
	})
	token := file(t, "token", []byte("token 1\n")) // it has expired
	cfg := kafka.Config{
		Brokers: b.ListenAddrs(), RequestTimeout: 3 * time.Second, TLS: kafka.TLS{On: true, CA: cert},
		SASL: kafka.SASL{Mechanism: kafka.OAuthBearer, TokenFile: token},
	}
	require.ErrorContains(t, works(t, connect(t, cfg)), "invalid_token")
	require.NoError(t, os.WriteFile(token, []byte("token 2\n"), 0o600))
	require.NoError(t, works(t, connect(t, cfg)), "each connection reads the token")
}

// Event Hubs by its documentation: PLAIN over TLS as $ConnectionString, requests below its limit, nothing packed. It
// is allowed to tell no cluster id: the namespace stands for it.
func TestEventHubs(t *testing.T) {
	const connection = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=s"
	cert, _, _, pair := certificate(t)
	b := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}), kfake.EnableSASL(),
		kfake.Superuser(kafka.Plain, "$ConnectionString", connection))
	b.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		for _, topic := range r.(*kmsg.ProduceRequest).Topics {
			for _, p := range topic.Partitions {
				if len(p.Records) > 1_046_528 || p.Records[22]&7 != 0 {
					return nil, errors.New("the connection is closed, as Event Hubs does"), true
				}
			}
		}
		return nil, nil, false
	})
	hub := b.ListenAddrs()[0]
	_, port, err := net.SplitHostPort(hub)
	require.NoError(t, err)
	c := connect(t, kafka.Config{
		Brokers: []string{"ns.servicebus.windows.net:" + port}, EventHubs: true, RequestTimeout: 3 * time.Second,
		TLS: kafka.TLS{CA: cert, ServerName: "127.0.0.1"}, SASL: kafka.SASL{PasswordFile: file(t, "connection",
			[]byte(connection))},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, hub)
		},
	})
	of := c.Topic(topic)
	text := string(make([]byte, 300_000))
	done, err := of.Produce(t.Context(), 0, []kafka.Message{message("k", text), message("k", text), message("k", text),
		message("k", text)})
	require.NoError(t, err)
	require.Equal(t, 4, done)
	_, err = of.Produce(t.Context(), 0, []kafka.Message{message("k", string(make([]byte, 1_040_000)))})
	require.ErrorIs(t, err, kafka.ErrTooLarge, "it is not sent: the connection would be closed, again and again")
	cluster, _, err := of.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ns.servicebus.windows.net", cluster)
}

func TestClusterWithoutIDNeedsOneGiven(t *testing.T) {
	b := fake(t)
	b.ControlKey(kmsg.Metadata.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		res := r.ResponseKind().(*kmsg.MetadataResponse)
		host, port, _ := net.SplitHostPort(b.ListenAddrs()[0])
		broker := kmsg.NewMetadataResponseBroker()
		p, _ := new(big.Int).SetString(port, 10)
		broker.Host, broker.Port = host, int32(p.Int64())
		res.Brokers = append(res.Brokers, broker)
		of, partition := kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
		of.Topic, of.Partitions = kmsg.StringPtr(topic), []kmsg.MetadataResponseTopicPartition{partition}
		res.Topics = append(res.Topics, of)
		return res, nil, true
	})
	_, _, err := connect(t, kafka.Config{Brokers: b.ListenAddrs()}).Topic(topic).Describe(t.Context())
	require.ErrorIs(t, err, kafka.ErrNoClusterID)
	cluster, _, err := connect(t, kafka.Config{Brokers: b.ListenAddrs(),
		ClusterID: "plant-7"}).Topic(topic).Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, "plant-7", cluster)
}
