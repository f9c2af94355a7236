package app_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/ingest/decode"
	"binnacle/ingest/write"
	"binnacle/internal/app"

	"github.com/stretchr/testify/require"
)

type publisher struct{ err error }

func (p publisher) Publish(context.Context, []write.DeadLetter) error { return p.err }

// lines is what a logger wrote, for any goroutine.
type lines struct {
	mu  sync.Mutex
	out strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func TestRefusedMessagesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		r := app.NewRefusals(slog.New(slog.NewTextHandler(&out, nil)), "curl rejected")
		r.DeadLetterWriter = publisher{}
		refuse := func(n int, reason decode.Reason, detail string) {
			letters := make([]write.DeadLetter, n)
			for i := range letters {
				letters[i].Bad = decode.Bad{Reason: reason, Detail: detail}
			}
			require.NoError(t, r.Publish(t.Context(), letters))
		}
		refuse(2, decode.Time, "ts -5 is not a time")
		require.Contains(t, out.String(), `level=WARN msg="messages refused" count=2 reason=time `+
			`last="ts -5 is not a time" see="curl rejected"`)
		refuse(10, decode.Device, "no device")
		require.Equal(t, 1, strings.Count(out.String(), "\n"), "the next line comes two seconds later")
		time.Sleep(2 * time.Second)
		refuse(1, decode.Device, "no device")
		require.Equal(t, 2, strings.Count(out.String(), "\n"))
		r.DeadLetterWriter = publisher{errors.New("not published")}
		time.Sleep(time.Minute)
		require.Error(t, r.Publish(t.Context(), make([]write.DeadLetter, 1)))
		require.Equal(t, 2, strings.Count(out.String(), "\n"), "what was not published will be tried again")
	})
}
