package cosmos_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/store"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/stretchr/testify/require"
)

// silent is a service that takes requests and does not answer those that hangs holds for, until answers is set.
type silent struct {
	hangs   func(*http.Request) bool
	answers atomic.Bool
}

func (s *silent) Do(r *http.Request) (*http.Response, error) {
	if !s.answers.Load() && s.hangs(r) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body := `{}`
	if r.URL.Path == "" || r.URL.Path == "/" {
		body = `{"writableLocations":[],"readableLocations":[]}`
	} else if r.Method == http.MethodPost {
		body = `{"Documents":[]}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(body))}, nil
}

// A request ends with its context whatever does not answer: the account, which the SDK asks first, or a container.
func TestSilentServiceEndsWithContext(t *testing.T) {
	account := func(r *http.Request) bool { return r.URL.Path == "" || r.URL.Path == "/" }
	for name, hangs := range map[string]func(*http.Request) bool{
		"account": account, "container": func(r *http.Request) bool { return !account(r) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &silent{hangs: hangs}
				endpoints++
				c, err := cosmos.New(cosmos.Config{Endpoint: fmt.Sprintf("http://silent-%d.invalid/", endpoints),
					Credential: cosmos.FixedKey("a2V5"), Transport: s})
				require.NoError(t, err)
				defer c.Close()
				began := time.Now()
				done := make(chan error)
				for range 3 {
					go func() {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						defer cancel()
						_, err := c.Chunks().Scan(ctx, store.Scan{Key: key, Range: anytime}, func([]byte) error { return nil })
						done <- err
					}()
				}
				for range 3 {
					require.ErrorIs(t, <-done, context.DeadlineExceeded)
				}
				require.Equal(t, 5*time.Second, time.Since(began))
				s.answers.Store(true)
				time.Sleep(2 * time.Minute) // the SDK has given up on the account
				for range 2 {               // the first one may learn of that
					_, err = c.Chunks().Scan(t.Context(), store.Scan{Key: key, Range: anytime}, func([]byte) error { return nil })
				}
				require.NoError(t, err)
			})
		})
	}
}

// A request whose caller waits for ever is given up once the service has been silent for a minute, as if its connection
// were lost: a process that reads again and again does not stop for good.
func TestSilentServiceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{hangs: func(*http.Request) bool { return true }}
		s.answers.Store(true)
		endpoints++
		c, err := cosmos.New(cosmos.Config{Endpoint: fmt.Sprintf("http://silent-%d.invalid/", endpoints),
			Credential: cosmos.FixedKey("a2V5"), Transport: s})
		require.NoError(t, err)
		defer c.Close()
		scan := func() error {
			_, err := c.Chunks().Scan(t.Context(), store.Scan{Key: key, Range: anytime}, func([]byte) error { return nil })
			return err
		}
		require.NoError(t, scan())
		s.answers.Store(false)
		began := time.Now()
		err = scan()
		require.ErrorContains(t, err, "no answer within 1m5s")
		require.NotErrorIs(t, err, context.DeadlineExceeded, "its caller has time left")
		require.Equal(t, 65*time.Second, time.Since(began))
		s.answers.Store(true)
		require.NoError(t, scan())
	})
}

// A request to Azure Resource Manager whose caller waits for ever is given up, as is the operation that it begins.
func TestSilentManagerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := cosmos.NewARM(cosmos.ARMConfig{Subscription: "sub", ResourceGroup: "rg", Account: "acct",
			Token: &azfake.TokenCredential{}, Transport: &silent{hangs: func(*http.Request) bool { return true }}})
		require.NoError(t, err)
		began := time.Now()
		_, err = a.List(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 5*time.Minute, time.Since(began))
	})
}
