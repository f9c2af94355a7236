package loadtest

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/internal/fleet"
	"binnacle/internal/telemetry"
)

// floodLog is a partition of the log, and a plain map of what is in it.
type floodLog struct {
	records []worker.Record
	due     []int64 // when each is in the log, ns since 1970
	loud    []bool
	sums    []uint64           // of what its reading says
	rows    map[string][]int32 // offsets of the readings of a device, in the order of their instants
}

// newFloodLog is all that is reported in the scenario; quiet leaves the loud tenant out.
func newFloodLog(cfg Config, quiet bool) *floodLog {
	l, f := &floodLog{rows: map[string][]int32{}}, cfg.Flood
	trucks := make([]*fleet.Truck, quietTrucks+loudTrucks)
	for i := range trucks {
		trucks[i] = fleet.NewTruck(cfg.Seed, i, midnight)
	}
	begin, end := floodCalm, floodCalm+f.For
	at := [2]time.Duration{0, time.Millisecond} // of what the neighbours and the loud one report next
	var next [2]int
	for at[0] < f.window() {
		who, truck := 0, next[0]%quietTrucks
		if !quiet && at[1] <= at[0] {
			who, truck = 1, quietTrucks+next[1]%loudTrucks
		}
		tenant := fmt.Sprintf("quiet-%d", truck%neighbours)
		every := time.Second / quietTrucks
		if who == 1 {
			tenant, every = loudTenant, time.Second/loudTrucks
			if at[1] >= begin && at[1] < end {
				every = time.Duration(float64(time.Second) / f.Rate)
			}
		}
		l.append(trucks[truck], tenant, midnight.Add(at[who]))
		next[who]++
		at[who] += every
	}
	return l
}

func (l *floodLog) append(truck *fleet.Truck, tenant string, at time.Time) {
	r := telemetry.Reading{
		Tenant: tenant, Device: truck.ID(), Time: at.UnixMilli(), Fields: truck.Next(at)[:floodValues],
	}
	offset := int64(len(l.records))
	l.records = append(l.records, worker.Record{
		Offset: offset, Time: r.Time, Key: []byte(tenant + "/" + r.Device),
		Value: decode.AppendJSON(make([]byte, 0, messageBytes/2), r),
	})
	l.due = append(l.due, at.UnixNano())
	l.loud = append(l.loud, tenant == loudTenant)
	s := summed{}
	for _, x := range r.Fields {
		s.add(x.Metric, x.Value)
	}
	l.sums = append(l.sums, s.sum)
	l.rows[r.Device] = append(l.rows[r.Device], int32(offset))
}

// find is the offset of the reading of a device at an instant, -1 for none.
func (l *floodLog) find(device string, at int64) int64 {
	rows := l.rows[device]
	i, found := slices.BinarySearchFunc(rows, at, func(offset int32, at int64) int {
		return int(l.records[offset].Time - at)
	})
	if !found {
		return -1
	}
	return int64(rows[i])
}

// summed is a number for what a reading says, of the values in any order.
type summed struct{ sum uint64 }

func (s *summed) add(metric string, v telemetry.Value) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(metric))
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, v.Bits()))
	s.sum += h.Sum64()
}

// readings visits each row of a chunk: its instant, and a number for what it says.
func readings(f chunk.Frame, visit func(at int64, sum uint64) error) error {
	for _, g := range f.Groups {
		rows := make([]summed, len(g.Times))
		for i := range g.Columns {
			c, k := &g.Columns[i], 0
			for row := range g.Times {
				if c.Present == nil || c.Present.Has(row) {
					rows[row].add(c.Metric, c.Value(k))
					k++
				}
			}
		}
		for i, at := range g.Times {
			if err := visit(at, rows[i].sum); err != nil {
				return err
			}
		}
	}
	return nil
}
