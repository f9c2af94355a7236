//go:build !unix

package chunk_test

import "time"

var started = time.Now()

// cpuTime is wall time, where the processors' own isn't to be had.
func cpuTime() time.Duration { return time.Since(started) }
