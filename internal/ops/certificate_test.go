package ops_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"binnacle/internal/ops"

	"github.com/stretchr/testify/require"
)

func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	made, file, err := ops.TLS{SelfMade: true}.Certificate(dir, now)
	require.NoError(t, err)
	pem, err := os.ReadFile(file)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem), "the file can be trusted as it is")
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		_, err := made.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
		require.NoError(t, err, name)
	}
	_, err = made.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "example.com", CurrentTime: now})
	require.Error(t, err)
	private, err := os.Stat(filepath.Join(dir, "tls", "key.pem"))
	require.NoError(t, err)
	require.Zero(t, private.Mode().Perm()&0o077, "the key is for its owner only")

	again, _, err := ops.TLS{SelfMade: true}.Certificate(dir, now.Add(300*24*time.Hour))
	require.NoError(t, err)
	require.Equal(t, made.Certificate, again.Certificate, "it is kept")
	later, _, err := ops.TLS{SelfMade: true}.Certificate(dir, now.Add(360*24*time.Hour))
	require.NoError(t, err)
	require.NotEqual(t, made.Certificate, later.Certificate, "it is renewed before it expires")

	given, _, err := ops.TLS{Cert: file, Key: filepath.Join(dir, "tls", "key.pem")}.Certificate(t.TempDir(), now)
	require.NoError(t, err)
	require.Equal(t, later.Certificate, given.Certificate)
	_, _, err = ops.TLS{Cert: file}.Certificate(dir, now)
	require.ErrorContains(t, err, "together")
	_, _, err = ops.TLS{Cert: "absent.pem", Key: "absent.pem"}.Certificate(dir, now)
	require.ErrorContains(t, err, "absent.pem")
	require.Equal(t, "http https", ops.TLS{}.Scheme()+" "+ops.TLS{SelfMade: true}.Scheme())
}
