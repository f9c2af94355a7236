package write

import (
	"binnacle/binning"
	"binnacle/ingest/bins"
	"binnacle/ingest/journal"
	"time"
)

// blocksOf puts rows of a chain into an append, in their order, until one must wait.
type blocksOf struct {
	j     *Appends
	now   time.Time
	a     *Append
	c     *bins.Chain
	after int64 // rows up to here are in the journal, or in the append
	limit int64 // rows from here on must wait

	taken int
	full  bool // the append
	bulky bool // a block that no append has room for
	err   error
}

// add adds rows of the chain to the append: of a chunk on its way all that are loose, of the bin its blocks, and with
// open also the rows that are no block yet. It reports whether there was room.
func (b *blocksOf) add(open bool) bool {
	w, c := b.j.w, b.c
	x := &c.Journaled
	if x.Bulky || x.Under > x.Through || w.Publisher.awaitsDeferred(c) {
		return true // the chain's rows are in this append already, or wait for dead letters
	}
	b.after = x.Through
	if c.Flight != nil {
		b.take(&c.Flight.Rows, true)
	}
	if open && c.Day.End() <= b.now.UnixMilli() {
		w.bins.Seal(c)
	}
	b.take(&c.Bin, open)
	if b.err != nil {
		w.bins.Lose(b.err)
		return true
	}
	if b.taken > 0 {
		x.Under = b.after
	}
	if b.bulky && b.taken == 0 {
		x.Bulky = true // it holds back F until it is stored, so that is done soon
		w.Ask(c, bins.CutBulky, b.now)
	}
	return !b.full
}

func (b *blocksOf) stopped() bool { return b.full || b.bulky || b.err != nil }

func (b *blocksOf) take(bin *binning.Bin, open bool) {
	blocks := bin.Blocks()
	for i := range blocks {
		if x := &blocks[i]; x.Through > b.after {
			if b.stopped() || x.First >= b.limit {
				return
			}
			b.block(x)
		}
	}
	if rows := bin.Open(); open && !b.stopped() && rows.Readings() > 0 {
		from, to := rows.RowsThrough(b.after), rows.RowsThrough(b.limit-1)
		if from < to {
			x, ok := bin.BlockOf(from, to, b.j.w.bins.Names.Schemas)
			if b.bulky = !ok; ok {
				b.put(&x)
			}
		}
	}
}

// block puts a block in, or what of it is not in the journal and need not wait.
func (b *blocksOf) block(x *binning.Block) {
	if x.First > b.after && x.Through < b.limit {
		b.put(x)
		return
	}
	part, ok, err := x.Between(b.after+1, b.limit, b.j.w.bins.Names.Schemas)
	if b.err = err; ok && err == nil {
		b.put(&part)
	}
	b.limit = min(b.limit, x.Through+1) // later rows wait with the rest of this block
}

func (b *blocksOf) put(x *binning.Block) {
	data, err := x.Append(nil)
	if err != nil {
		b.err = err
		return
	}
	c := b.c
	r := journal.Record{
		Stream: b.j.w.Cfg.Stream, Tenant: c.Device.Tenant.Name, Device: c.Device.ID, Day: c.Day,
		Tail:  c.JournalTail(b.j.w.bins.Generation),
		First: x.First, Through: x.Through, Rows: x.Rows, Values: x.Values, From: x.From, To: x.To, Data: data,
	}
	switch b.j.add(b.a, &r, sentBlock{chain: c, through: x.Through}) {
	case tooLarge:
		b.bulky = true
	case noRoom:
		b.full = true
	case added:
		b.after = x.Through
		b.taken++
	}
}
