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
		ctx, stop := context.WithCancel(t.Context())
		r := &app.Refusals{DeadLetterWriter: publisher{}, Log: slog.New(slog.NewTextHandler(&out, nil)), See: "curl rejected"}
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		refuse := func(n int, reason decode.Reason, detail string) {
			letters := make([]write.DeadLetter, n)
			for i := range letters {
				letters[i].Bad = decode.Bad{Reason: reason, Detail: detail}
			}
			require.NoError(t, r.Publish(ctx, letters))
		}
		refuse(2, decode.Time, "ts -5 is not a time")
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
		require.Contains(t, out.String(),
			`level=WARN msg="messages refused" reasons="time 2" last="ts -5 is not a time" see="curl rejected"`)
		for range 5 {
			refuse(10, decode.Device, "no device")
			refuse(1, decode.Time, "ts -6 is not a time")
			time.Sleep(time.Second)
		}
		require.Equal(t, 1, strings.Count(out.String(), "\n"), "the next line comes ten seconds later")
		time.Sleep(6 * time.Second)
		require.Equal(t, 2, strings.Count(out.String(), "\n"))
		require.Contains(t, out.String(), `reasons="device 50, time 5" last="ts -6 is not a time"`)
		r.DeadLetterWriter = publisher{errors.New("not published")}
		require.Error(t, r.Publish(ctx, make([]write.DeadLetter, 1)))
		time.Sleep(time.Minute)
		require.Equal(t, 2, strings.Count(out.String(), "\n"), "what was not published will be tried again")
		stop()
		require.NoError(t, <-ended)
	})
}
