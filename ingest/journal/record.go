package journal

import (
	"encoding/binary"
	"fmt"

	"binnacle/internal/telemetry"
)

// Nonce tells appends apart: a random number that all records of one append carry.
type Nonce uint64

// String is the nonce as 16 hexadecimal digits.
func (n Nonce) String() string { return fmt.Sprintf("%016x", uint64(n)) }

// Link names an append by the offset of its last record and its nonce (rule J6).
type Link struct {
	Offset int64
	Nonce  Nonce
}

// Record is one record of the journal: a block of rows of one device and day, and the append that it came with.
type Record struct {
	Nonce Nonce
	// Before is the append that the writer knew to be the last one. Only the first record of an append has it, and not
	// that of a writer who knew none.
	Before  Link
	Linked  bool
	Stream  uint32 // of the source
	Tenant  string
	Device  string
	Day     telemetry.Day
	First   int64 // offsets of the source: of the first and the last record whose rows are in the block
	Through int64
	Rows    int
	Data    []byte // the rows; docs/format/block.md
}

// recordVersion opens every record.
const recordVersion = 1

const flagLinked = 1

// Append appends the record's value, as the journal's topic keeps it.
func (r *Record) Append(dst []byte) []byte {
	dst = append(dst, recordVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Nonce))
	if !r.Linked {
		dst = append(dst, 0)
	} else {
		dst = append(dst, flagLinked)
		dst = binary.AppendUvarint(dst, uint64(r.Before.Offset))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Before.Nonce))
	}
	for _, n := range []uint64{uint64(r.Stream), uint64(r.Day), uint64(r.First), uint64(r.Through - r.First),
		uint64(r.Rows)} {
		dst = binary.AppendUvarint(dst, n)
	}
	for _, s := range []string{r.Tenant, r.Device} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	return append(dst, r.Data...)
}

// ParseRecord is the inverse of Record.Append. Data aliases value. Any error wraps ErrNotWhole.
func ParseRecord(value []byte) (Record, error) {
	p := parser{rest: value}
	if v := p.byte(); p.fault == "" && v != recordVersion {
		p.fault = fmt.Sprintf("its version is %d", v)
	}
	r := Record{Nonce: Nonce(p.fixed())}
	switch flags := p.byte(); {
	case p.fault != "":
	case flags == flagLinked:
		r.Linked, r.Before = true, Link{p.offset(), Nonce(p.fixed())}
	case flags != 0:
		p.fault = fmt.Sprintf("its flags are %#x", flags)
	}
	r.Stream = uint32(p.number(1<<32 - 1))
	r.Day = telemetry.Day(p.number(telemetry.MaxMillis/telemetry.DayMillis - 1))
	r.First = p.offset()
	r.Through = r.First + int64(p.number(uint64(1<<63-1-r.First)))
	r.Rows = int(p.number(1 << 30))
	r.Tenant, r.Device = p.text(), p.text()
	r.Data = p.rest
	switch {
	case p.fault == "" && (r.Tenant == "" || r.Device == ""):
		p.fault = "it names no tenant or device"
	case p.fault == "" && r.Rows == 0:
		p.fault = "it has no rows"
	}
	if p.fault != "" {
		return Record{}, fmt.Errorf("%w: a record is none of the journal's: %s", ErrNotWhole, p.fault)
	}
	return r, nil
}

// parser takes fields off the front of rest until one is wrong; then all others are zero.
type parser struct {
	rest  []byte
	fault string
}

const short = "it ends too soon"

func (p *parser) take(n int) []byte {
	if p.fault != "" || n > len(p.rest) {
		p.wrong(short)
		return nil
	}
	out := p.rest[:n]
	p.rest = p.rest[n:]
	return out
}

func (p *parser) wrong(fault string) {
	if p.fault == "" {
		p.fault = fault
	}
}

func (p *parser) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *parser) fixed() uint64 {
	if b := p.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (p *parser) number(most uint64) uint64 {
	if p.fault != "" {
		return 0
	}
	n, used := binary.Uvarint(p.rest)
	switch {
	case used <= 0:
		p.wrong(short)
		return 0
	case n > most:
		p.wrong(fmt.Sprintf("%d is above %d", n, most))
		return 0
	}
	p.rest = p.rest[used:]
	return n
}

func (p *parser) offset() int64 { return int64(p.number(1<<63 - 1)) }

func (p *parser) text() string { return string(p.take(int(p.number(1 << 16)))) }
