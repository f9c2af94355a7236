package replay

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how far a replay is. Without a terminal it does nothing.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(w io.Writer, what string, size int64) progress {
	return newBar(w, what, size, progressbar.OptionShowBytes(true))
}

// newCount shows how many of some things are done.
func newCount(w io.Writer, what string, n int64) progress {
	return newBar(w, what, max(n, 1), progressbar.OptionShowCount())
}

func newBar(w io.Writer, what string, size int64, kind progressbar.Option) progress {
	if w == nil {
		return progress{}
	}
	return progress{progressbar.NewOptions64(size, kind,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p progress) at(read int64) {
	if p.bar != nil {
		_ = p.bar.Set64(read) // a terminal that is gone is no reason to stop
	}
}

func (p progress) add(n int64) {
	if p.bar != nil {
		_ = p.bar.Add64(n)
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
