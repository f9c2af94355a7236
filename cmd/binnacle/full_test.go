package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The disk of the broker, of the store, of both in one process is full while producers publish. The process says so in
// a line and ends, once more when it is started meanwhile. When there is room again it goes on: what was acknowledged
// is answered, once, with its last values, and aggregates are those of a plain map.
//
// A limit of the size of files stands for the disk, as that needs no rights. Where there are rights to mount, the last
// one has a file system of its own, which is filled to its last block.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	targets := []string{"dev"} // which has a broker and a store
	if *full {
		targets = []string{"broker", "emulator", "dev"}
	}
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if target == "dev" && mounted(t, dir) {
				c := newFull(t, target, filepath.Join(dir, "data"))
				ballast := filepath.Join(dir, "ballast")
				c.fillsUp(c.member(target), func() { fillBut(t, ballast, 200<<10) },
					func() { require.NoError(t, os.Remove(ballast)) })
				return
			}
			c := newFull(t, target, dir)
			m := c.member(target)
			c.fillsUp(m, func() {
				m.stop(syscall.SIGTERM)
				m.blocks = 160
				c.launch(m)
			}, func() { m.blocks = 0 })
		})
	}
}

// mounted puts a small file system at a folder, if that may be done.
func mounted(t *testing.T, dir string) bool {
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "none", dir).CombinedOutput(); err != nil {
		t.Logf("no file system of its own, a limit instead: mount: %v: %s", err, out)
		return false
	}
	t.Cleanup(func() { require.NoError(t, exec.Command("umount", "-l", dir).Run()) })
	return true
}

// newFull returns a system with few devices and short bins.
func newFull(t *testing.T, target, dir string) (c *chaos) {
	if seed := seedOf(t, 0); target == "dev" {
		c = newDevIn(t, seed, dir, []string{"1s"})
	} else {
		c = newRoles(t, seed, dir, 1, "1s")
	}
	c.truth.pause = 20 * time.Millisecond
	return c
}

// member is the one with a name.
func (c *chaos) member(name string) *member {
	for _, m := range c.members {
		if m.name == name {
			return m
		}
	}
	require.FailNow(c.t, "no member", name)
	return nil
}

// fillBut writes a file until the file system has so many bytes left.
func fillBut(t *testing.T, path string, left uint64) {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for block := make([]byte, 4096); ; {
		var room syscall.Statfs_t
		require.NoError(t, syscall.Statfs(filepath.Dir(path), &room))
		if room.Bavail*uint64(room.Bsize) <= left {
			return
		}
		_, err := f.Write(block)
		require.NoError(t, err)
	}
}

// fillsUp has producers publish before, while and after a member has no room.
func (c *chaos) fillsUp(m *member, fill, free func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	var producers sync.WaitGroup
	for i := range 3 {
		rnd := rand.New(rand.NewPCG(c.rnd.Uint64(), uint64(i)))
		producers.Go(func() { c.truth.produce(ctx, i, &c.brokerAt, rnd) })
	}
	c.more(100)
	fill()
	c.saysThatItIsFull(m)
	c.launch(m)
	c.saysThatItIsFull(m)
	free()
	c.launch(m)
	c.more(100)
	cancel()
	producers.Wait()
	v := c.judge()
	for _, example := range v.examples {
		c.t.Log(example)
	}
	c.t.Log(v.line(0))
	require.True(c.t, v.good(), v.line(0))
	soon(c.t, time.Minute, func() bool { return c.chunks() > 0 }, "chunks of bins held long enough")
	c.aggregatesAgree()
}

// more waits until so many more messages are acknowledged.
func (c *chaos) more(n int) {
	acked := func() int {
		c.truth.mu.Lock()
		defer c.truth.mu.Unlock()
		return len(c.truth.all)
	}
	before := acked()
	soon(c.t, 2*time.Minute, func() bool { return acked() >= before+n }, "producers go on")
}

// isFull is what a process says at its end.
var isFull = regexp.MustCompile(
	`^binnacle: .*(data directory|Kafka's log in) /.*: (file too large|no space left on device)`)

// saysThatItIsFull waits until a member has ended by itself, with one line.
func (c *chaos) saysThatItIsFull(m *member) {
	require.Equal(c.t, 1, m.wait(2*time.Minute), "exit code")
	said := strings.Split(strings.TrimSpace(m.stderr.String()), "\n")
	require.Regexp(c.t, isFull, said[len(said)-1])
	require.NotContains(c.t, m.stderr.String(), "goroutine ")
	c.t.Log(said[len(said)-1])
}

// aggregatesAgree compares the aggregates of whole series with those of the rows that are answered.
func (c *chaos) aggregatesAgree() {
	type series struct{ device, labels string }
	type sums struct{ Count, Min, Max, Sum int64 }
	all, complete := c.answered(context.Background(), "")
	require.True(c.t, complete)
	want, got := map[series]sums{}, map[series]sums{}
	for r := range all.readings {
		at, n := series{r.device, r.labels}, numberOf(all.readings[r])
		s, ok := want[at]
		if !ok {
			s.Min, s.Max = n, n
		}
		want[at] = sums{s.Count + 1, min(s.Min, n), max(s.Max, n), s.Sum + n}
	}
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf(
		"http://%s/api/v1/aggregates?metric=n&from=0&to=%d&strict=true", c.apiAt, noon()+10*86_400_000), nil)
	require.NoError(c.t, err)
	req.Header.Set("X-Scope-OrgID", "acme")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(c.t, err)
	defer resp.Body.Close()
	var answer struct {
		Aggregates []struct {
			sums
			Device string
			Labels map[string]string
		}
		Complete bool
	}
	require.NoError(c.t, json.NewDecoder(resp.Body).Decode(&answer))
	require.True(c.t, answer.Complete)
	for _, a := range answer.Aggregates {
		at := series{a.Device, labelled(a.Labels)}
		require.NotContains(c.t, got, at)
		got[at] = a.sums
	}
	require.Equal(c.t, want, got)
}
