package provision_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/provision"

	"github.com/stretchr/testify/require"
)

// journal is provision.Journal, with the answers of its rounds.
type journal struct {
	answers []error
	rounds  int
}

func (j *journal) Ensure(context.Context) ([]string, error) {
	j.rounds++
	if j.rounds > len(j.answers) {
		return nil, nil
	}
	if err := j.answers[j.rounds-1]; err != nil {
		return nil, err
	}
	return []string{"make topic t.journal"}, nil
}

// A journal is looked after until the end; what is wrong with it is said once, and again when it comes back.
func TestKeepJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, compacted := errors.New("no broker"), errors.New("compacted")
		j := &journal{answers: []error{gone, gone, gone, compacted, nil, gone}}
		var said bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- provision.KeepJournal(ctx, j, time.Minute, slog.New(slog.NewTextHandler(&said, nil)))
		}()
		time.Sleep(10*time.Minute + time.Second) // of the bubble's clock
		stop()
		require.NoError(t, <-ended)
		require.Equal(t, 11, j.rounds)
		require.Equal(t, 2, strings.Count(said.String(), "no broker"))
		require.Equal(t, 1, strings.Count(said.String(), "compacted"))
		require.Equal(t, 1, strings.Count(said.String(), "make topic t.journal"))
	})
}
