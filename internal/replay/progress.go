package replay

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how much of the file has been read. Without a terminal it does nothing.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(w io.Writer, what string, size int64) progress {
	if w == nil {
		return progress{}
	}
	return progress{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
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

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
