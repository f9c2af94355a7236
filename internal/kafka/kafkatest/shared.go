// Package kafkatest runs Apache Kafka for tests, so that each claim about brokers is checked on a real one too. It
// needs Java and Kafka's jars, which `make kafka-it` fetches; without them the tests are skipped.
package kafkatest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shared is a Server for all tests of a package, started by the first one that needs it. The zero Shared is ready.
type Shared struct {
	mu     sync.Mutex
	server *Server
}

// Server returns the running server. It skips the test where Java or Kafka is missing.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		made, err := New(libs(t))
		require.NoError(t, err)
		if err := made.Start(); err != nil {
			made.Close()
			require.NoError(t, err)
		}
		s.server = made
	}
	return s.server
}

// Running starts a cluster of servers for one test. It skips the test where Java or Kafka is missing.
func Running(t testing.TB, servers int) []*Server {
	t.Helper()
	all, err := NewCluster(libs(t), servers)
	require.NoError(t, err)
	started := make(chan error, len(all))
	for _, s := range all {
		t.Cleanup(s.Close)
		go func() { started <- s.Start() }() // a controller alone does not answer
	}
	for range all {
		require.NoError(t, <-started)
	}
	return all
}

// M is *testing.M.
type M interface{ Run() int }

// Main returns an M that closes the server after the tests.
func (s *Shared) Main(m M) M { return sharing{m, s} }

type sharing struct {
	m      M
	shared *Shared
}

// Run implements M.
func (s sharing) Run() int {
	defer func() {
		s.shared.mu.Lock()
		defer s.shared.mu.Unlock()
		if s.shared.server != nil {
			s.shared.server.Close()
		}
	}()
	return s.m.Run()
}

var names atomic.Int64

// Name returns a name of a topic or group that no other test has.
func Name(t testing.TB) string {
	short := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s.%d", short, names.Add(1))
}
