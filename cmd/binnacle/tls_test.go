package main_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The emulator serves both gateways over TLS, with a certificate that the file it names makes trusted.
func TestEmulatorTLS(t *testing.T) {
	p := start(t, "emulator", "--cosmos=127.0.0.1:0", "--cosmos-compute=127.0.0.1:0", "--tls", "--data-dir", t.TempDir())
	routing, compute := p.printed(`(?m)^ +endpoint +(https://\S+)`), p.printed(`(?m)^ +compute +(https://\S+)`)
	pem, err := os.ReadFile(p.printed(`(?m)^ +trust +SSL_CERT_FILE=(\S+)`))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		DisableKeepAlives: true}}
	for _, endpoint := range []string{routing, compute} {
		resp, err := client.Get(endpoint)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 401, resp.StatusCode, "it answers, and asks for authorization")
	}
}
