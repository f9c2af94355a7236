package retry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/retry"

	"github.com/stretchr/testify/require"
)

func TestTroubleAndItsEndAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
		trouble := retry.Trouble{Log: log, Failing: "no answer", Over: "answers again"}
		trouble.Report(nil)
		for i := range 100 {
			trouble.Report(fmt.Errorf("error %d", i/70), "n", i)
			time.Sleep(time.Second)
		}
		trouble.Report(nil, "n", 100)
		trouble.Report(nil)
		trouble.Report(errors.New("error 1"))
		require.Equal(t, []string{
			`level=WARN msg="no answer" error="error 0" n=0`,
			`level=WARN msg="no answer" error="error 0" n=60`,
			`level=WARN msg="no answer" error="error 1" n=70`,
			`level=INFO msg="answers again" after=1m40s n=100`,
			`level=WARN msg="no answer" error="error 1"`,
		}, strings.Split(strings.TrimSpace(out.String()), "\n"))
	})
}
