package loadtest

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how much fleet time has passed, of all passes together. Without a terminal
// it does nothing. It is safe for any number of callers.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(cfg Config) progress {
	if cfg.Progress == nil {
		return progress{}
	}
	seconds := 0.0
	for _, l := range layouts {
		seconds += 2 * cfg.measured(l).Seconds()
		if l == Binnacle {
			seconds += 2 * cfg.Hold.Seconds()
		}
	}
	seconds *= float64(len(cfg.Scenarios))
	for range cfg.Paces {
		seconds += (cfg.Hold + day).Seconds()
	}
	if cfg.Floods {
		seconds += cfg.Flood.window().Seconds() * float64(len(floodCases))
	}
	return progress{progressbar.NewOptions64(int64(seconds),
		progressbar.OptionSetWriter(cfg.Progress),
		progressbar.OptionSetDescription("seconds of fleet time"),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p progress) tick() {
	if p.bar != nil {
		_ = p.bar.Add(1) // a terminal that is gone is no reason to stop
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
