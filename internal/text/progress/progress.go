// Package progress shows on a terminal how far a command is.
package progress

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Bar is a progress bar. The zero value shows nothing. It is safe for any number of callers. Errors of the terminal are
// ignored: a terminal that is gone is no reason to stop.
type Bar struct{ bar *progressbar.ProgressBar }

// New returns a bar of n steps; without a terminal one that shows nothing.
func New(w io.Writer, what string, n int64) Bar {
	return newBar(w, what, max(n, 1), progressbar.OptionShowCount())
}

// NewBytes returns a bar of a number of bytes, -1 if unknown; without a terminal one that shows nothing.
func NewBytes(w io.Writer, what string, size int64) Bar {
	return newBar(w, what, size, progressbar.OptionShowBytes(true))
}

func newBar(w io.Writer, what string, n int64, unit progressbar.Option) Bar {
	if w == nil {
		return Bar{}
	}
	return Bar{progressbar.NewOptions64(n, unit,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	)}
}

// Add moves the bar on by n.
func (b Bar) Add(n int64) {
	if b.bar != nil {
		_ = b.bar.Add64(n)
	}
}

// Set moves the bar to n.
func (b Bar) Set(n int64) {
	if b.bar != nil {
		_ = b.bar.Set64(n)
	}
}

// Clear removes the bar from the terminal.
func (b Bar) Clear() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
