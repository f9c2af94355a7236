package kafka_test

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/kafka/kafkatest"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// Every mechanism accepts a client with the right secret, over TLS, and refuses others with an error.
func TestApacheKafkaAuthenticates(t *testing.T) {
	server := apache.Server(t)
	at := target{addr: server.Addr()}
	of := at.topicOf(t, nil)
	token := func(expires time.Time) string {
		part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":"binnacle","iat":%d,"exp":%d}`,
			time.Now().Add(-time.Minute).Unix(), expires.Unix())) + "."
	}
	for mechanism, secrets := range map[string][2]string{ // right, wrong
		kafka.Plain:       {kafkatest.Password, "wrong"},
		kafka.ScramSHA256: {kafkatest.Password, "wrong"},
		kafka.ScramSHA512: {kafkatest.Password, "wrong"},
		kafka.OAuthBearer: {token(time.Now().Add(time.Hour)), token(time.Now().Add(-time.Second))},
	} {
		t.Run(mechanism, func(t *testing.T) {
			for i, secret := range secrets {
				cfg := kafka.Config{Brokers: []string{server.Secure()}, RequestTimeout: 10 * time.Second,
					TLS: kafka.TLS{On: true, CA: server.Certificate()}}
				cfg.SASL = kafka.SASL{Mechanism: mechanism, User: kafkatest.User, PasswordFile: file(t, "secret", []byte(secret))}
				if mechanism == kafka.OAuthBearer {
					cfg.SASL = kafka.SASL{Mechanism: mechanism, TokenFile: cfg.SASL.PasswordFile}
				}
				c := connect(t, cfg)
				base, err := c.Topic(of).Append(t.Context(), 0, several(1, mechanism))
				if i == 0 {
					require.NoError(t, err)
					require.Equal(t, []string{mechanism}, values(t, c.Topic(of), 0, base))
					conn, err := c.Dialer().DialContext(t.Context(), "tcp", server.Secure())
					require.NoError(t, err)
					require.NoError(t, conn.Close())
					continue
				}
				if mechanism == kafka.OAuthBearer {
					require.ErrorContains(t, err, "Kafka refuses the token")
					continue
				}
				require.ErrorIs(t, err, kafkago.SASLAuthenticationFailed)
				require.True(t, kafka.IsPermanent(err))
			}
		})
	}
	_, err := connect(t, kafka.Config{Brokers: []string{server.Secure()}, RequestTimeout: 3 * time.Second,
		TLS: kafka.TLS{On: true}}).Topic(of).Partitions(t.Context())
	require.ErrorContains(t, err, "certificate")
}
