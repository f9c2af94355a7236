//go:build unix

package chunk_test

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of the processors: on a busy machine it says more than the clock on the wall.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
