package heatlog_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/heat/heatlog"

	"github.com/stretchr/testify/require"
)

// Hours and days have the sums of what they are made of, also after the minutes have expired, whichever process makes
// them and however often.
func TestThinningKeepsSums(t *testing.T) {
	m := &memory{}
	const hours = 50
	for at := base - hours*heat.Hour; at < base+heat.Hour/2; at += 5 * heat.Minute {
		for _, writer := range []string{"a", "b"} {
			m.put(t, heat.Frame{Layer: heat.Minutes, From: at, To: at + 5*heat.Minute, Writer: writer}, 2.5)
		}
	}
	now := base - (hours-1)*heat.Hour
	thinner := func() *heatlog.Thinner {
		return heatlog.NewThinner(m, func() time.Time { return time.UnixMilli(now) }, slog.New(slog.DiscardHandler))
	}
	for ; now <= base+heat.Hour/2; now += heat.Hour / 3 {
		require.NoError(t, thinner().Round(t.Context()))
		require.NoError(t, thinner().Round(t.Context()), "another one")
	}
	// A frame of which its maker wrote one document of two does not count, and another process's does.
	m.put(t, heat.Frame{Layer: heat.Hours, From: base - heat.Hour, To: base, Writer: "0", Of: 2}, 1000)
	m.put(t, heat.Frame{Layer: heat.Hours, From: base - 2*heat.Hour, To: base - heat.Hour, Writer: "~"}, 60)

	for id, d := range m.docs[string(heat.Minutes)] {
		if d.from < base { // it has expired
			delete(m.docs[string(heat.Minutes)], id)
		}
	}
	r := heatlog.NewReader(m)
	for _, step := range []int64{heat.Minute, heat.Hour, heat.Day} {
		g, err := r.Grid(t.Context(), container, heat.Span{From: base - 2*heat.Day, To: base + heat.Hour, Step: step})
		require.NoError(t, err)
		require.Len(t, g.Rows, 1)
		sum := g.Rows[0].Total()
		require.InDelta(t, 2*1440+30, sum.Total(), 1e-6, "step %d", step)
	}
}

// closed is an account whose containers can't be listed.
type closed struct{ account }

func (closed) List(context.Context) ([]string, error) { return nil, errors.New("busy") }

// A day is made when all of its hours are that can be.
func TestDaysWaitForTheirHours(t *testing.T) {
	m := &memory{}
	for at := base - heat.Day; at < base; at += 5 * heat.Minute {
		m.put(t, heat.Frame{Layer: heat.Minutes, From: at, To: at + 5*heat.Minute, Writer: "a"}, 5)
	}
	now := base - 23*heat.Hour
	thinner := func(of heatlog.Containers) *heatlog.Thinner {
		return heatlog.NewThinner(m, func() time.Time { return time.UnixMilli(now) }, slog.New(slog.DiscardHandler)).Bill(of)
	}
	day := func() float64 {
		frames, err := heatlog.NewReader(m).Frames(t.Context(), heat.Span{From: base - heat.Day, To: base, Step: heat.Day})
		require.NoError(t, err)
		sum := 0.0
		for _, f := range frames {
			for i := range f.Cells {
				sum += f.Cells[i].Total()
			}
		}
		return sum
	}
	for ; now <= base-2*heat.Hour; now += heat.Hour / 3 {
		require.NoError(t, thinner(account{}).Round(t.Context()))
	}
	for ; now <= base+2*heat.Hour; now += heat.Hour / 3 {
		require.ErrorContains(t, thinner(closed{}).Round(t.Context()), "busy")
		require.InDelta(t, 1440, day(), 1e-6)
	}
	made := len(m.docs[string(heat.Days)])
	require.NoError(t, thinner(account{}).Round(t.Context()))
	require.Len(t, m.docs[string(heat.Days)], made+1)
	require.InDelta(t, 1440, day(), 1e-6)
}
