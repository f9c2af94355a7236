package main_test

import (
	"context"
	"encoding/json"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/headhttp"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// maxDiagnoses is how many answers are looked into that say they are complete and show older values than they should.
const maxDiagnoses = 3

// diagnose logs at once what heads and the store have of a row that an answer showed an older value of: later it may
// have healed by itself.
func (c *chaos) diagnose(ctx context.Context, o observation, older int, about json.RawMessage) {
	if c.diagnosed++; c.diagnosed > maxDiagnoses {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	c.t.Logf("a complete answer has number %d of %v, %d was acknowledged; %d rows are older; it says of itself: %s",
		o.seen, o.row, o.acked, older, about)
	c.describeHeads(ctx, o.row)
	if err := c.describeChunks(ctx, o.row); err != nil {
		c.t.Logf("cannot list the chunks: %v", err)
	}
	again, complete := c.answered(ctx, o.row.device)
	c.t.Logf("asked again: number %d, complete %v", numberOf(again.readings[o.row]), complete)
}

// heads asks those of all ingesters.
func (c *chaos) heads() *headhttp.Client {
	return headhttp.NewClient(headhttp.ClientConfig{
		Targets: func(context.Context) (urls []string, err error) {
			for _, at := range c.headsAt {
				urls = append(urls, "http://"+at)
			}
			return urls, nil
		},
		Secret: func() string { return headsSecret },
	})
}

// describeHeads logs where all heads stand, and what they have of a row's device and day.
func (c *chaos) describeHeads(ctx context.Context, r row) {
	heads, err := c.heads().Heads(ctx, store.HeadRequest{Tenant: "acme", Devices: []string{r.device}, Range: dayOf(r)})
	if err != nil {
		c.t.Logf("not all heads answer: %v", err)
	}
	for _, h := range heads {
		c.t.Logf("head of %s/%d, stream %d: position %d, log end at assignment %d, chains %+v", h.Topic, h.Partition,
			h.Stream, h.Position, h.CaughtUp, h.Chains)
		for rows, err := range h.Rows {
			if err != nil {
				c.t.Logf("  its rows end: %v", err)
				break
			}
			c.t.Logf("  rows through %d: %d, number %d", rows.Source.Through, rows.Frame.Rows(), numberIn(rows.Frame, r))
		}
	}
}

// describeChunks logs the chunks of a row's device and day.
func (c *chaos) describeChunks(ctx context.Context, r row) error {
	client := storeClient(c.t, c.storeAt)
	defer client.Close()
	known, err := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()}).Refresh(ctx)
	if err != nil {
		return err
	}
	acme, _ := known.Tenant("acme")
	where := acme.Placement
	for _, v := range where.Visits([]string{r.device}, dayOf(r)) {
		_, err := client.Chunks().Scan(ctx, store.Scan{Key: v.Key, Range: v.Range}, func(doc []byte) error {
			x, err := chunk.Parse(doc)
			if err != nil {
				return err
			}
			frame, err := x.Frame(nil)
			if err != nil {
				return err
			}
			h := x.Header
			c.t.Logf("chunk %s: records %d to %d after %d, cut %s, %d readings, number %d", h.ID, h.First, h.Through, h.After,
				time.UnixMilli(h.Cut).UTC().Format(time.TimeOnly), h.Readings, numberIn(frame, r))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func dayOf(r row) telemetry.Range {
	day := telemetry.DayOf(r.ts)
	return telemetry.Range{From: day.Start(), To: day.End()}
}

// numberOf is the number of the message that a row's values are of, 0 when there is none.
func numberOf(values map[string]any) int64 {
	n, ok := values["n"].(json.Number)
	if !ok {
		return 0
	}
	number, _ := n.Int64() // else it is wrong, and 0
	return number
}

// numberIn is the number that a frame has of a row, 0 when it has none.
func numberIn(f chunk.Frame, r row) int64 {
	for _, g := range f.Groups {
		labels := map[string]string{}
		for _, l := range g.Labels {
			labels[l.Name] = l.Value
		}
		if labelled(labels) != r.labels {
			continue
		}
		for _, column := range g.Columns {
			if column.Metric != "n" {
				continue
			}
			k := 0
			for i, at := range g.Times {
				if column.Present != nil && !column.Present.Has(i) {
					continue
				}
				if at == r.ts {
					return int64(column.Value(k).Float())
				}
				k++
			}
		}
	}
	return 0
}
