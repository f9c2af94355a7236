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

// errWire says that an answer is not in the format of this version.
var errWire = errors.New("not an answer of a head")

// message is a message that is being written, or read. Each function below is the format of a structure.
type message struct{ bytesread.Codec }

func (m *message) partition(h *store.PartitionHead) {
	m.Text(&h.Topic)
	bytesread.Int(&m.Codec, &h.Partition)
	bytesread.Uint(&m.Codec, &h.Stream, math.MaxUint32)
	bytesread.Int(&m.Codec, &h.Position)
	bytesread.Int(&m.Codec, &h.CaughtUp)
	bytesread.List(m.Of(1), &h.Containers, m.Text)
}

func (m *message) chains(chains *[]store.HeadChain) {
	bytesread.List(m.Of(6), chains, func(c *store.HeadChain) {
		m.Text(&c.Device)
		bytesread.Int(&m.Codec, &c.Day)
		bytesread.Uint(&m.Codec, &c.Tail.Number, math.MaxUint32)
		bytesread.Int(&m.Codec, &c.Tail.Through)
		bytesread.Int(&m.Codec, &c.Tail.From)
		bytesread.Int(&m.Codec, &c.Tail.To)
	})
}

func (m *message) stored(s *store.HeadStored) {
	for _, n := range []*uint64{&s.Count, &s.Exact, &s.Above} {
		bytesread.Uint(&m.Codec, n, math.MaxUint64)
	}
}

func (m *message) deferrals(waits *[]store.HeadDeferral) {
	bytesread.List(m.Of(4), waits, func(w *store.HeadDeferral) {
		m.Text(&w.Device)
		bytesread.Int(&m.Codec, &w.From)
		bytesread.Int(&m.Codec, &w.Since)
		m.Text(&w.Limit)
	})
}

// device has a list of columns, which earlier releases fill and nobody reads.
func (m *message) device(d *store.HeadDevice) {
	m.Text(&d.Device)
	bytesread.Int(&m.Codec, &d.First)
	bytesread.Int(&m.Codec, &d.Last)
	var columns []chunk.Column
	bytesread.List(m.Of(2), &columns, func(c *chunk.Column) {
		m.Text(&c.Metric)
		m.kind(&c.Kind)
	})
}

func (m *message) kind(k *telemetry.Kind) {
	if bytesread.Uint(&m.Codec, k, uint64(telemetry.Text)); *k == 0 {
		m.Failf("a value of no kind")
	}
}

func (m *message) source(partition *int, r *store.HeadRows) {
	bytesread.Uint(&m.Codec, partition, math.MaxInt32)
	m.Text(&r.Device)
	bytesread.Uint(&m.Codec, &r.Source.Stream, math.MaxUint32)
	bytesread.Int(&m.Codec, &r.Source.Partition)
	bytesread.Int(&m.Codec, &r.Source.Through)
}

func (m *message) rows(partition int, r *store.HeadRows) int {
	m.source(&partition, r)
	bytesread.List(m.Of(3), &r.Frame.Groups, m.group)
	return partition
}

func (m *message) part(r *store.HeadRows) {
	bytesread.Int(&m.Codec, &r.Day)
	bytesread.Int(&m.Codec, &r.First)
	bytesread.Int(&m.Codec, &r.Above)
}

func (m *message) bin(partition int, r *store.HeadRows) int {
	m.part(r)
	return m.rows(partition, r)
}

// blocks writes or reads blocks, which are valid until the next message.
func (m *message) blocks(partition int, r *store.HeadRows, schemas *binning.Schemas) int {
	m.part(r)
	m.source(&partition, r)
	bytesread.List(m.Of(2), &r.Blocks, func(b *chunk.Blocks) {
		var schema []byte
		if m.Appends {
			schema = b.Schema.Bytes()
		}
		if m.Bytes(&schema); !m.Appends {
			var err error
			if b.Schema, err = schemas.Schema(schema); err != nil && m.Err == nil {
				m.Failf("%w", err)
			}
		}
		bytesread.List(m.Of(1), &b.Rows, m.Bytes)
	})
	return partition
}

func (m *message) group(g *chunk.Group) {
	bytesread.List(m.Of(2), &g.Labels, func(l *telemetry.Label) {
		m.Text(&l.Name)
		m.Text(&l.Value)
	})
	before := int64(0)
	bytesread.List(m.Of(1), &g.Times, func(t *int64) {
		step := *t - before
		bytesread.Int(&m.Codec, &step)
		if !m.Appends && before > 0 && step <= 0 {
			m.Failf("an instant %d ms after the one before", step)
		}
		if before += step; !m.Appends {
			*t = before
		}
	})
	bytesread.List(m.Of(4), &g.Columns, func(c *chunk.Column) { m.column(c, len(g.Times)) })
}

// column writes or reads numbers of eight bytes each: their like bytes stand eight apart, which the compression of the
// whole answer finds. It fails unless the column has the group's number of rows.
func (m *message) column(c *chunk.Column, rows int) {
	m.Text(&c.Metric)
	m.kind(&c.Kind)
	m.words((*[]uint64)(&c.Present))
	if words := (rows + 63) / 64; c.Present != nil &&
		(len(c.Present) != words || rows&63 != 0 && c.Present[words-1]>>(rows&63) != 0) {
		m.Failf("a bitmap of %d words for %d rows", len(c.Present), rows)
		return
	}
	if c.Kind == telemetry.Text {
		bytesread.List(m.Of(1), &c.Texts, m.Text)
	} else {
		m.words(&c.Bits)
	}
	want := rows
	if c.Present != nil {
		want = c.Present.Count()
	}
	if m.Err == nil && c.Len() != want {
		m.Failf("%d values in %d rows", c.Len(), want)
	}
}

// words writes or reads a list of numbers of eight bytes, without a call for each.
func (m *message) words(list *[]uint64) {
	if m.Appends {
		n := len(*list)
		bytesread.Uint(&m.Codec, &n, math.MaxInt)
		for _, w := range *list {
			m.Out = binary.LittleEndian.AppendUint64(m.Out, w)
		}
		return
	}
	if n := m.Count(8); n > 0 {
		*list = make([]uint64, n)
		for i, b := 0, m.Take(8*n); i < n; i++ {
			(*list)[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
	}
}

func (m *message) word(n *uint64) { bytesread.Fixed(&m.Codec, n) }

func (m *message) end() error {
	if err := m.End(); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}
