package broker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kfake"
)

// logger passes kfake's log on. kfake logs each request as Info, which is Debug here. It reports a failed write in
// its log only, before it answers.
type logger struct {
	to  *slog.Logger
	end *fatalOnce
}

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	to := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		to = slog.LevelError
	case kfake.LogLevelWarn:
		to = slog.LevelWarn
	}
	ctx := context.Background()
	if l.to.Enabled(ctx, to) {
		l.to.Log(ctx, to, "kfake: "+fmt.Sprintf(format, args...))
	}
	if level <= kfake.LogLevelWarn {
		if err := unwritten(format, args); err != nil {
			l.end.trigger(err)
		}
	}
}
