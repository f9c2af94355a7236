package box_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// story makes a failing run shorter, and tells it: one line an event.
func story(t *testing.T, opts options, failed result) string {
	opts = shrink(t, opts, failed)
	var lines []string
	opts.trace = func(line string) { lines = append(lines, line) }
	again := run(t, opts)
	left := "nothing"
	if len(opts.without) > 0 {
		left = fmt.Sprint(opts.without)
	}
	return fmt.Sprintf("The shortest run that fails: -box.seed=%d -box.events=%d, left out: %s.\n%s\n%s\n", opts.seed,
		opts.until, left, strings.Join(lines, "\n"), again.failure)
}

// shrink finds the fewest kinds of acts, and the shortest prefix of disturbance, with which a seed fails.
func shrink(t *testing.T, opts options, failed result) options {
	for _, act := range acts {
		fewer := opts
		fewer.without = maps.Clone(opts.without)
		if fewer.without == nil {
			fewer.without = map[string]bool{}
		}
		fewer.without[act] = true
		if r := run(t, fewer); r.failure != "" {
			opts, failed = fewer, r
		}
	}
	// Nothing is disturbed from the event on at which it failed; then from half of them on, and so on.
	opts.until = min(opts.until, failed.events)
	least := 0
	for most := opts.until; least < most; {
		middle := (least + most) / 2
		shorter := opts
		shorter.until = middle
		if r := run(t, shorter); r.failure != "" {
			opts, most = shorter, middle
		} else {
			least = middle + 1
		}
	}
	return opts
}
