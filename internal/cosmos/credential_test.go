package cosmos_test

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"

	"github.com/stretchr/testify/require"
)

// counted counts the requests that the service refuses.
type counted struct {
	inner interface {
		Do(*http.Request) (*http.Response, error)
	}
	refused int
}

func (c *counted) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.inner.Do(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		c.refused++
	}
	return resp, err
}

// Keys are exchanged while a process runs: first the other one comes into use, then the file has a new one.
func TestKeyRotation(t *testing.T) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	old := base64.StdEncoding.EncodeToString([]byte("a key that was exchanged for another"))
	file := filepath.Join(t.TempDir(), "keys")
	write := func(keys ...string) {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(keys, "\n")+"\n"), 0o600))
	}
	now := time.Unix(0, 0)
	transport := &counted{inner: server.Transport()}
	open := func() *cosmos.Client {
		c, err := cosmos.New(cosmos.Config{
			Endpoint: server.Endpoint(), Credential: cosmos.KeyFile(file), Transport: transport,
			Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		return c
	}

	write(old, emulator.Key)
	c := open()
	defer c.Close()
	require.NoError(t, c.EnsureBase(t.Context()), "the secondary key is good")
	before := transport.refused
	_, err = c.Containers().List(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, transport.refused, "the primary is not tried again")

	write(old)
	stale := open()
	defer stale.Close()
	_, err = stale.Containers().List(t.Context())
	require.ErrorContains(t, err, "401", "no key is good")
	write(emulator.Key)
	now = now.Add(2 * time.Second)
	_, err = stale.Containers().List(t.Context())
	require.NoError(t, err, "the file has a new key")
}

func TestEmptyKeyFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	_, err := cosmos.New(cosmos.Config{Endpoint: "http://x.invalid", Credential: cosmos.KeyFile(file)})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(file, []byte(" \n"), 0o600))
	_, err = cosmos.New(cosmos.Config{Endpoint: "http://x.invalid", Credential: cosmos.KeyFile(file)})
	require.ErrorContains(t, err, "holds none")
}

func TestIdentities(t *testing.T) {
	_, err := cosmos.Identity("mine", "")
	require.ErrorContains(t, err, `identity "mine" is none of default, workload, managed, environment`)
	_, err = cosmos.Identity(cosmos.IdentityEnvironment, "")
	require.ErrorContains(t, err, "AZURE_TENANT_ID")
	c, err := cosmos.Identity(cosmos.IdentityManaged, "00000000-0000-0000-0000-000000000001")
	require.NoError(t, err)
	require.NotNil(t, c.Token)
	_, err = cosmos.New(cosmos.Config{Endpoint: "http://x.invalid", Credential: c})
	require.NoError(t, err)
	c.Keys = cosmos.FixedKey("a").Keys
	_, err = cosmos.New(cosmos.Config{Endpoint: "http://x.invalid", Credential: c})
	require.ErrorContains(t, err, "either account keys or an identity")
}
