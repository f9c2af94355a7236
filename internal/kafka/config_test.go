package kafka_test

import (
	"os"
	"path/filepath"
	"testing"

	"binnacle/internal/kafka"

	"github.com/stretchr/testify/require"
)

func TestValidateReportsEveryFault(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   kafka.Config
		wrong []string // nothing: it is right
	}{
		"no broker":     {kafka.Config{}, []string{"address of a broker"}},
		"plain":         {kafka.Config{Brokers: []string{"a:1", "b:1"}}, nil},
		"no port":       {kafka.Config{Brokers: []string{"a:1", "b"}}, []string{`"b"`}},
		"no port, hubs": {kafka.Config{Brokers: []string{"ns.servicebus.windows.net"}, EventHubs: true}, nil},
		"codec":         {kafka.Config{Brokers: []string{"a:1"}, Compression: "brotli"}, []string{"brotli"}},
		"bounds": {kafka.Config{Brokers: []string{"a:1"}, MaxRequestBytes: -1, MaxUnpackedBytes: 7},
			[]string{"-1", "7 bytes"}},
		"certificates": {kafka.Config{Brokers: []string{"a:1"}, TLS: kafka.TLS{Cert: "c"}},
			[]string{"need --kafka-tls", "needs its key"}},
		"mechanism": {kafka.Config{Brokers: []string{"a:1"}, SASL: kafka.SASL{Mechanism: "GSSAPI"}},
			[]string{"GSSAPI"}},
		"no mechanism": {kafka.Config{Brokers: []string{"a:1"}, SASL: kafka.SASL{User: "u"}},
			[]string{"need a SASL mechanism"}},
		"no password": {kafka.Config{Brokers: []string{"a:1"}, SASL: kafka.SASL{Mechanism: kafka.Plain, User: "u"}},
			[]string{"password file"}},
		"a token in clear": {kafka.Config{Brokers: []string{"a:1"},
			SASL: kafka.SASL{Mechanism: kafka.OAuthBearer, TokenFile: "t"}}, []string{"in clear"}},
		"no token": {kafka.Config{Brokers: []string{"a:1"}, TLS: kafka.TLS{On: true},
			SASL: kafka.SASL{Mechanism: kafka.OAuthBearer}}, []string{"token"}},
		"connection string": {kafka.Config{Brokers: []string{"a:1"}, EventHubs: true, SASL: kafka.SASL{PasswordFile: "f"}},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.cfg.Validate()
			if c.wrong == nil {
				require.NoError(t, err)
			}
			for _, w := range c.wrong {
				require.ErrorContains(t, err, w)
			}
		})
	}
}

// What the files hold is seen at the start, not at the first connection.
func TestSecretFilesAreReadAtStart(t *testing.T) {
	missing, empty := filepath.Join(t.TempDir(), "missing"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, file := range []string{missing, empty} {
		for _, cfg := range []kafka.Config{
			{TLS: kafka.TLS{On: true, CA: file}},
			{TLS: kafka.TLS{On: true, Cert: file, Key: file}},
			{SASL: kafka.SASL{Mechanism: kafka.Plain, User: "u", PasswordFile: file}},
			{SASL: kafka.SASL{Mechanism: kafka.ScramSHA256, User: "u", PasswordFile: file}},
		} {
			cfg.Brokers = []string{"127.0.0.1:1"}
			_, err := kafka.New(cfg)
			require.Error(t, err)
		}
	}
}
