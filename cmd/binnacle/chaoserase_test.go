package main_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// eraser publishes readings of devices of a tenant of its own, has them erased while things break, and publishes
// again.
type eraser struct {
	t        *testing.T
	brokerAt *atomic.Pointer[string]
	storeAt  string
	devices  []*erasedDevice
}

// erasedDevice is one of its devices.
type erasedDevice struct {
	name     string
	isErased bool
	after    table // that was published after it was erased
}

const eraserTenant = "eraser"

// run goes on until the context ends.
func (e *eraser) run(ctx context.Context) {
	begin := noon()
	for n := 0; ctx.Err() == nil; n++ {
		d := &erasedDevice{name: fmt.Sprint("e", n), after: table{}}
		e.devices = append(e.devices, d)
		before := table{}
		for i := range int64(20) {
			before[row{device: d.name, ts: begin + i*1000}] = map[string]any{"v": float64(i)}
		}
		if !e.publish(ctx, before) {
			return
		}
		for ctx.Err() == nil && !d.isErased {
			d.isErased = e.erase(d)
		}
		e.report(ctx, d)
	}
}

// report publishes readings of a device that is erased.
func (e *eraser) report(ctx context.Context, d *erasedDevice) {
	after := table{{device: d.name, ts: noon() + 500_000}: {"v": 7.0}, {device: d.name, ts: noon() + 1000}: {"v": 8.0}}
	if d.isErased && e.publish(ctx, after) {
		d.after = after
	}
}

// publish publishes readings until they are acknowledged, which it reports: it fails only when the context ends.
func (e *eraser) publish(ctx context.Context, all table) bool {
	var messages []kafka.Message
	for r, values := range all {
		messages = append(messages, message(eraserTenant, r, values))
	}
	for ctx.Err() == nil {
		w := &kafka.Writer{Addr: kafka.TCP(*e.brokerAt.Load()), Topic: "telemetry", RequiredAcks: kafka.RequireAll,
			BatchTimeout: time.Millisecond, MaxAttempts: 1, Balancer: &kafka.Hash{}}
		err := w.WriteMessages(ctx, messages...)
		_ = w.Close()
		if err == nil {
			return true
		}
	}
	return false
}

// erase orders the erasure of a device, and reports whether that is acknowledged.
func (e *eraser) erase(d *erasedDevice) bool {
	return run(e.t, 2*time.Minute, "tenant", "erase", eraserTenant, "--confirm="+eraserTenant,
		"--device="+d.name, "--kafka="+*e.brokerAt.Load(),
		"--cosmos="+e.storeAt).code == 0
}

// check requires, when nothing is broken any more, that of each device what was published afterwards is answered,
// and nothing else.
func (e *eraser) check(c *chaos) {
	erased, want := 0, table{}
	for _, d := range e.devices {
		if !d.isErased {
			d.isErased = e.erase(d)
		}
		if len(d.after) == 0 { // once more, if it was published while the time ended
			e.report(c.t.Context(), d)
		}
		if !d.isErased { // its tenant is not registered: nothing of it has been stored
			continue
		}
		erased++
		for r, values := range d.after {
			want[r] = values
		}
	}
	d := &dev{process: &process{t: c.t}, api: c.apiAt}
	soon(c.t, time.Minute, func() bool {
		resp, err := http.Get("http://" + c.apiAt + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		got, complete := d.everythingOf(eraserTenant)
		return err == nil && complete && len(got) == len(want)
	}, "what was erased is not answered, what came afterwards is: %d readings", len(want))
	require.Equal(c.t, len(want) > 0, erased > 0)
	d.answers(eraserTenant, want, everything)
	c.t.Logf("%d devices were erased", erased)
}
