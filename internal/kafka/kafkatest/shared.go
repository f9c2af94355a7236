// Package kafkatest runs Apache Kafka for tests: what the embedded broker answers is what it was made to answer, so
// each claim about brokers is held against a real one too. Java and Kafka's jars are needed; `make kafka-it` fetches
// the jars and says where they are, and without it the tests are skipped.
package kafkatest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shared is one Server for all tests of a package, started by the first one that wants it. The zero Shared is ready.
type Shared struct {
	mu     sync.Mutex
	server *Server
}

// Server returns the running server. The test is skipped where there can be none.
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

// Running is a cluster of so many servers of the test's own, which run. The test is skipped where there can be none.
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

// Main is m, with the server closed behind the tests.
func (s *Shared) Main(m M) M { return sharing{m, s} }

type sharing struct {
	m      M
	shared *Shared
}

// Run is M.
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

// Name is a name that no other test has, of a topic or a group.
func Name(t testing.TB) string {
	short := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%s.%d", short, names.Add(1))
}
