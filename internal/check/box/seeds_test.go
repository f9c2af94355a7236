package box_test

import (
	"bufio"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	boxSeed     = flag.Uint64("box.seed", 1, "seed of the first run of TestBox, 0 for a random one")
	boxRuns     = flag.Int("box.runs", 7*len(kinds), "runs of TestBox, 0 for as many as fit into -box.duration")
	boxDuration = flag.Duration("box.duration", time.Minute, "how long TestBox goes on without -box.runs")
	boxEvents   = flag.Int("box.events", 1500, "events of a run after which nothing more is disturbed")
	boxTwice    = flag.Bool("box.twice", true, "make each of the first runs twice, and compare")
	boxCores    = flag.Int("box.cores", 1, "processes that make runs, each with seeds of its own")
	boxShrink   = flag.Bool("box.shrink", true, "make a run that fails shorter, and print its story")
	boxWith     = flag.String("box.with", oneKind, "the only rarer kinds of actors that each run has, with commas")
	boxStory    = flag.Bool("box.story", false, "print every event")
)

// oneKind has each run have the next kind of rarer actors, or rule.
const oneKind = "each"

var kinds = []string{"", string(journaled), string(lagging), string(unasked), string(doubled), rollupMakers,
	provisioners, erasures, retentions, copying, limits, spilling, grouped, bills, refusals, limits + "," + refusals,
	erasures + "," + rollupMakers,
	erasures + "," + setbacks}

// TestBox makes runs, some twice: the same seed gives the same run. In groups it need not: two goroutines of kafka-go's
// may call in one instant.
func TestBox(t *testing.T) {
	seed := *boxSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 48)
	}
	if *boxCores > 1 {
		onCores(t, seed)
		return
	}
	fmt.Printf("seed %d\n", seed)
	begun, sum, disturbed, runs, events := time.Now(), fnv.New64a(), 0, 0, 0
	for ; *boxRuns == 0 && time.Since(begun) < *boxDuration || runs < *boxRuns; runs++ {
		opts := options{seed: seed + uint64(runs), until: *boxEvents, with: *boxWith}
		if opts.with == oneKind {
			opts.with = kinds[runs%len(kinds)]
		}
		if *boxStory {
			opts.trace = func(line string) { fmt.Println(line) }
		}
		r := run(t, opts)
		disturbed, events = disturbed+r.disturbed, events+r.events
		fmt.Fprintf(sum, "%x", r.hash)
		switch {
		case r.failure != "" && !*boxShrink:
			t.Errorf("seed %d: %s", opts.seed, r.failure)
		case r.failure != "":
			t.Errorf("seed %d: %s\n%s", opts.seed, r.failure, story(t, opts, r))
		case *boxTwice && runs < len(kinds) && opts.with != grouped && run(t, opts).hash != r.hash:
			t.Errorf("seed %d: two runs differ: %s", opts.seed, difference(t, opts))
		}
		if t.Failed() {
			break
		}
	}
	fmt.Printf("events %d\nruns %d, calls that did not plainly succeed %d\nhash %016x\n", events, runs, disturbed,
		sum.Sum64())
}

// TestFound makes the runs that have found a fault of the product.
func TestFound(t *testing.T) {
	plain := map[string]bool{rollupMakers: true, provisioners: true, erasures: true, retentions: true, copying: true,
		limits: true, setbacks: true}
	for name, opts := range map[string]options{
		// Of a takeover neither head shows what the former owner has just stored, and a replica may lack it.
		"chunks of a former owner": {seed: 4, until: 2009, without: plain},
		// A copy of the control documents that was read with a clock ahead looked new, and lacked a container.
		"a querier with a clock ahead": {seed: 4, until: 424, without: plain},
		// An operator read for two hours what a change would hide, and it counted when it was stored (rule X5).
		"a change that was confirmed late": {seed: 2, until: 3000, with: retentions},
		// Names of metrics took all memory, and nothing that was counted could go: no record was read any more.
		"names that filled memory": {seed: 1, until: 3000, with: spilling},
		// Kafka did not answer for minutes, and the journal counted as not whole the first time that it did not (J5).
		"a journal behind Kafka that is back": {seed: 31080754033835, until: 3000, with: refusals},
	} {
		t.Run(name, func(t *testing.T) {
			if r := run(t, opts); r.failure != "" {
				t.Errorf("%s\n%s", r.failure, story(t, opts, r))
			}
		})
	}
}

// onCores makes runs in several processes, since one process lets one goroutine run at a time.
func onCores(t *testing.T, seed uint64) {
	var running sync.WaitGroup
	for i := range *boxCores {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestBox$", "-test.timeout", "0", fmt.Sprintf("-box.seed=%d",
			seed+uint64(i)<<32), fmt.Sprintf("-box.runs=%d", *boxRuns), fmt.Sprintf("-box.duration=%s", *boxDuration),
			fmt.Sprintf("-box.events=%d", *boxEvents), fmt.Sprintf("-box.twice=%t", *boxTwice),
			"-box.with", *boxWith)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				fmt.Println(lines.Text())
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", i, err)
			}
		})
	}
	running.Wait()
}

// difference says where two runs of a seed differ first.
func difference(t *testing.T, opts options) string {
	var before []string
	for range 20 {
		var lines []string
		opts.trace = func(line string) { lines = append(lines, line) }
		run(t, opts)
		for i := range min(len(lines), len(before)) {
			if lines[i] != before[i] {
				from := max(0, i-12)
				return fmt.Sprintf("\n%s\n\nor\n\n%s\n", strings.Join(before[from:min(len(before), i+4)], "\n"),
					strings.Join(lines[i:min(len(lines), i+4)], "\n"))
			}
		}
		before = lines
	}
	return "not again in 20 runs"
}
