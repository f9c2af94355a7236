package loadtest

import "sync"

// simLoad is the load that two days of chunks put on each partition, by second.
type simLoad struct {
	// rus and requests are by partition and second.
	rus, requests []float32
	// bytes is by key.
	bytes  []float64
	chunks int64
	// all is the size of all documents, in bytes.
	values, all float64
}

func (m *simulation) newLoad() *simLoad {
	n := m.cfg.Partitions * 2 * daySeconds
	return &simLoad{rus: make([]float32, n), requests: make([]float32, n), bytes: make([]float64, len(m.keys))}
}

// write adds the chunks of a day of some devices.
func (m *simulation) write(l *simLoad, from, to int) {
	for i := from; i < to; i++ {
		s := &m.samples[m.sample[i]]
		k := m.key[i]
		several := m.spread[i]
		shift := int64(m.phase[i]) - s.first
		for n := range s.chunks {
			c := &s.chunks[n]
			at := c.at
			if c.due {
				at += shift
			} else {
				at += c.gap * int64(m.phase[i]) / m.cfg.Hold.Milliseconds()
			}
			if len(several) > 0 {
				k = several[n%len(several)]
			}
			second := int(m.keys[k].partition)*2*daySeconds + min(int(at/1000), 2*daySeconds-1)
			l.rus[second] += c.rus
			l.requests[second]++
			l.bytes[k] += float64(c.bytes)
		}
		l.chunks += int64(len(s.chunks))
		l.values += s.values
		l.all += s.bytes
	}
}

// written adds up the chunks of a day of all devices.
func (m *simulation) written(loads []*simLoad) *simLoad {
	var all sync.WaitGroup
	for w, l := range loads {
		l.bytes = append(l.bytes, make([]float64, len(m.keys)-len(l.bytes))...)
		all.Go(func() { m.write(l, w*m.cfg.Devices/len(loads), (w+1)*m.cfg.Devices/len(loads)) })
	}
	all.Wait()
	sum := loads[0]
	for _, l := range loads[1:] {
		sum.take(l)
	}
	return sum
}

// take adds another load, and clears it.
func (l *simLoad) take(o *simLoad) {
	for i, x := range o.rus {
		l.rus[i] += x
	}
	for i, x := range o.requests {
		l.requests[i] += x
	}
	for i, x := range o.bytes {
		l.bytes[i] += x
	}
	l.chunks, l.values, l.all = l.chunks+o.chunks, l.values+o.values, l.all+o.all
	clear(o.rus)
	clear(o.requests)
	clear(o.bytes)
	o.chunks, o.values, o.all = 0, 0, 0
}

// next makes the second day the first one.
func (l *simLoad) next(partitions int) {
	for _, of := range [][]float32{l.rus, l.requests} {
		for p := range partitions {
			both := of[p*2*daySeconds : (p+1)*2*daySeconds]
			copy(both, both[daySeconds:])
			clear(both[daySeconds:])
		}
	}
	clear(l.bytes)
	l.chunks, l.values, l.all = 0, 0, 0
}
