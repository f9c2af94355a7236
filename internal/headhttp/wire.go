package headhttp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/wire/bytesread"
)

// Paths of the requests, all POST with a JSON body.
const (
	headsPath   = "/heads/v1/rows"
	devicesPath = "/heads/v1/devices"
	updatesPath = "/heads/v1/news"
)

// binsPath is the path of the report of open bins: a GET with a JSON answer, as at the ingester's admin listener.
const binsPath = "/heads/v1/bins"

// Version changes with what an older reader would misunderstand.
const Version = 1

// binsHeader asks for rows by bin. An older process answers without.
const binsHeader = "Binnacle-Heads-Bins"

// blocksHeader says that the sender takes rows as blocks of this layout. A process that has another one answers groups.
var blocksHeader = "Binnacle-Heads-Blocks-" + strconv.Itoa(chunk.BlockVersion)

// storedHeader asks for counts of stored chunks. An older process answers without.
const storedHeader = "Binnacle-Heads-Stored"

var contentType = "application/vnd.binnacle.heads.v" + strconv.Itoa(Version)

// kind is the first byte of a message.
type kind byte

const (
	partitionKind kind = 'p' // a store.PartitionHead without its rows
	chainsKind    kind = 'c' // some of the chains of the partition before
	deferralsKind kind = 'w' // the deferrals of the partition before, if any
	ownerKind     kind = 'o' // the owner of the partition before, where bins were asked for
	storedKind    kind = 't' // the store.HeadStored of the partition before, where it was asked for
	// binKind is rows with their bin and the offset that they are above.
	binKind kind = 'b'
	// blocksKind is binKind with blocks in place of groups, on request.
	blocksKind  kind = 'k'
	rowsKind    kind = 'r' // the number of a partition, from 0 in the order of their messages, and store.HeadRows
	deviceKind  kind = 'd' // a store.HeadDevice
	updatesKind kind = 'n' // devices of a store.HeadUpdates, as a page of the catalog
	versionKind kind = 'v' // the version of a store.HeadUpdates
	sentKind    kind = 's' // all partitions are sent, rows follow
	faultKind   kind = 'f' // text: some heads or rows are missing
	endKind     kind = 'e' // the answer is whole
)

// maxMessage bounds a message: rows of one bin are the longest ones, and a bin has at most chunk.MaxValues values, with
// texts of what fits a chunk.
const maxMessage = 256 << 20

// message is a message that is being written.
type message []byte

func (m *message) number(n uint64)  { *m = binary.AppendUvarint(*m, n) }
func (m *message) integer(n int64)  { *m = binary.AppendVarint(*m, n) }
func (m *message) fixed(n uint64)   { *m = binary.LittleEndian.AppendUint64(*m, n) }
func (m *message) text(s string)    { m.number(uint64(len(s))); *m = append(*m, s...) }
func (m *message) bytes(b []byte)   { m.number(uint64(len(b))); *m = append(*m, b...) }
func (m *message) texts(s []string) { m.number(uint64(len(s))); each(s, m.text) }

func each[T any](list []T, do func(T)) {
	for _, x := range list {
		do(x)
	}
}

func (m *message) partition(h *store.PartitionHead) {
	m.text(h.Topic)
	m.integer(int64(h.Partition))
	m.number(uint64(h.Stream))
	m.integer(h.Position)
	m.integer(h.CaughtUp)
	m.texts(h.Containers)
}

func (m *message) chains(chains []store.HeadChain) {
	m.number(uint64(len(chains)))
	for _, c := range chains {
		m.text(c.Device)
		m.integer(int64(c.Day))
		m.number(uint64(c.Tail.Number))
		m.integer(c.Tail.Through)
		m.integer(c.Tail.From)
		m.integer(c.Tail.To)
	}
}

func (m *message) stored(s *store.HeadStored) {
	m.number(s.Count)
	m.number(s.Exact)
	m.number(s.Above)
}

func (m *message) deferrals(waits []store.HeadDeferral) {
	m.number(uint64(len(waits)))
	for _, w := range waits {
		m.text(w.Device)
		m.integer(w.From)
		m.integer(w.Since)
		m.text(w.Limit)
	}
}

func (m *message) device(d *store.HeadDevice) {
	m.text(d.Device)
	m.integer(d.First)
	m.integer(d.Last)
	m.number(uint64(len(d.Columns)))
	for _, c := range d.Columns {
		m.text(c.Metric)
		m.number(uint64(c.Kind))
	}
}

func (m *message) source(partition int, r *store.HeadRows) {
	m.number(uint64(partition))
	m.text(r.Device)
	m.number(uint64(r.Source.Stream))
	m.integer(int64(r.Source.Partition))
	m.integer(r.Source.Through)
}

func (m *message) rows(partition int, r *store.HeadRows) {
	m.source(partition, r)
	m.number(uint64(len(r.Frame.Groups)))
	for i := range r.Frame.Groups {
		m.group(&r.Frame.Groups[i])
	}
}

func (m *message) part(r *store.HeadRows) {
	m.integer(int64(r.Day))
	m.integer(r.First)
	m.integer(r.Above)
}

func (m *message) bin(partition int, r *store.HeadRows) {
	m.part(r)
	m.rows(partition, r)
}

func (m *message) blocks(partition int, r *store.HeadRows) {
	m.part(r)
	m.source(partition, r)
	m.number(uint64(len(r.Blocks)))
	for _, b := range r.Blocks {
		m.bytes(b.Schema.Bytes())
		m.number(uint64(len(b.Rows)))
		each(b.Rows, m.bytes)
	}
}

func (m *message) group(g *chunk.Group) {
	m.number(uint64(len(g.Labels)))
	for _, l := range g.Labels {
		m.text(l.Name)
		m.text(l.Value)
	}
	m.number(uint64(len(g.Times)))
	before := int64(0)
	for _, t := range g.Times {
		m.integer(t - before)
		before = t
	}
	m.number(uint64(len(g.Columns)))
	for i := range g.Columns {
		m.column(&g.Columns[i])
	}
}

// column writes numbers of eight bytes each: their like bytes stand eight apart, which the compression of the whole
// answer finds.
func (m *message) column(c *chunk.Column) {
	m.text(c.Metric)
	m.number(uint64(c.Kind))
	m.number(uint64(len(c.Present)))
	each(c.Present, m.fixed)
	m.number(uint64(c.Len()))
	each(c.Bits, m.fixed)
	each(c.Texts, m.text)
}

// errWire says that an answer is not in the format of this version.
var errWire = errors.New("not an answer of a head")

// reader reads a message.
type reader struct{ bytesread.Reader }

func (r *reader) int32() int32 {
	n := r.Varint()
	if n < math.MinInt32 || n > math.MaxInt32 {
		r.Failf("%d is beyond 32 bits", n)
		return 0
	}
	return int32(n)
}

func (r *reader) texts() []string { return list(r, 1, r.Text) }

func (r *reader) words() []uint64 {
	n := r.Count(8)
	if n == 0 {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(r.Rest[8*i:])
	}
	r.Rest = r.Rest[8*n:]
	return out
}

// list reads a list with elements of a least size in bytes; nil when it is empty.
func list[T any](r *reader, least int, one func() T) []T {
	n := r.Count(least)
	if n == 0 {
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		out = append(out, one())
	}
	return out
}

func (r *reader) partition() store.PartitionHead {
	return store.PartitionHead{
		Topic: r.Text(), Partition: r.int32(), Stream: uint32(r.Uvarint(math.MaxUint32)), Position: r.Varint(),
		CaughtUp:   r.Varint(),
		Containers: r.texts(),
	}
}

func (r *reader) chains() []store.HeadChain {
	return list(r, 6, func() store.HeadChain {
		return store.HeadChain{
			Device: r.Text(), Day: telemetry.Day(r.int32()),
			Tail: store.Tail{
				Number: uint32(r.Uvarint(math.MaxUint32)), Through: r.Varint(), From: r.Varint(), To: r.Varint(),
			},
		}
	})
}

func (r *reader) stored() *store.HeadStored {
	return &store.HeadStored{Count: r.Uvarint(math.MaxUint64), Exact: r.Uvarint(math.MaxUint64),
		Above: r.Uvarint(math.MaxUint64)}
}

func (r *reader) deferrals() []store.HeadDeferral {
	return list(r, 4, func() store.HeadDeferral {
		return store.HeadDeferral{Device: r.Text(), From: r.Varint(), Since: r.Varint(), Limit: r.Text()}
	})
}

func (r *reader) kind() telemetry.Kind {
	k := telemetry.Kind(r.Uvarint(uint64(telemetry.Text)))
	if k == 0 {
		r.Failf("a value of no kind")
	}
	return k
}

func (r *reader) device() store.HeadDevice {
	d := store.HeadDevice{Device: r.Text(), First: r.Varint(), Last: r.Varint()}
	d.Columns = list(r, 2, func() store.HeadColumn { return store.HeadColumn{Metric: r.Text(), Kind: r.kind()} })
	return d
}

func (r *reader) source(out *store.HeadRows) (partition int) {
	partition = int(r.Uvarint(math.MaxInt32))
	out.Device = r.Text()
	out.Source = store.Source{Stream: uint32(r.Uvarint(math.MaxUint32)), Partition: r.int32(), Through: r.Varint()}
	return partition
}

func (r *reader) rows() (partition int, out store.HeadRows) {
	partition = r.source(&out)
	out.Frame.Groups = list(r, 3, r.group)
	return partition, out
}

func (r *reader) part(out *store.HeadRows) {
	out.Day, out.First, out.Above = telemetry.Day(r.int32()), r.Varint(), r.Varint()
}

func (r *reader) bin() (partition int, out store.HeadRows) {
	var of store.HeadRows
	r.part(&of)
	partition, out = r.rows()
	out.Day, out.First, out.Above = of.Day, of.First, of.Above
	return partition, out
}

// blocks returns blocks that are valid until the next message.
func (r *reader) blocks(schemas *binning.Schemas) (partition int, out store.HeadRows) {
	r.part(&out)
	partition = r.source(&out)
	out.Blocks = list(r, 2, func() (b chunk.Blocks) {
		var err error
		if b.Schema, err = schemas.Schema(r.Bytes()); err != nil && r.Err == nil {
			r.Failf("%w", err)
		}
		b.Rows = list(r, 1, r.Bytes)
		return b
	})
	return partition, out
}

func (r *reader) group() chunk.Group {
	g := chunk.Group{Labels: list(r, 2, func() telemetry.Label {
		return telemetry.Label{Name: r.Text(),
			Value: r.Text()}
	})}
	before := int64(0)
	g.Times = list(r, 1, func() int64 {
		step := r.Varint()
		if before > 0 && step <= 0 {
			r.Failf("an instant %d ms after the one before", step)
		}
		before += step
		return before
	})
	g.Columns = list(r, 4, func() chunk.Column { return r.column(len(g.Times)) })
	return g
}

// column reads a column of a group, and fails unless it has the group's number of rows.
func (r *reader) column(rows int) chunk.Column {
	c := chunk.Column{Metric: r.Text(), Kind: r.kind()}
	c.Present = r.words()
	want := rows
	if c.Present != nil {
		if words := (rows + 63) / 64; len(c.Present) != words || rows&63 != 0 && c.Present[words-1]>>(rows&63) != 0 {
			r.Failf("a bitmap of %d words for %d rows", len(c.Present), rows)
			return c
		}
		want = c.Present.Count()
	}
	if c.Kind == telemetry.Text {
		c.Texts = list(r, 1, r.Text)
	} else {
		c.Bits = r.words()
	}
	if r.Err == nil && c.Len() != want {
		r.Failf("%d values in %d rows", c.Len(), want)
	}
	return c
}

func (r *reader) end() error {
	if err := r.End(); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}
