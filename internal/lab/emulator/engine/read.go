package engine

import (
	"time"

	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/refusal"
)

// readHeader reads the header of one item into head. stored reports that there is one, alive that it has not expired
// either.
func readHeader(
	from kv.Reader, name []byte, head *header, defaultTTL int32, now time.Time,
) (stored, alive bool, err error) {
	e := from.Get(name)
	if e == nil {
		return false, false, nil
	}
	if err := head.decode(e.Value()); err != nil {
		return false, false, err
	}
	return true, now.Unix() < head.expiry(defaultTTL), nil
}

// Read returns an item, by its key and id. What it returns is durable.
func (c *Container) Read(call Call, r Read) (Result, error) {
	doc := documents.Get().(*document)
	defer documents.Put(doc)
	key, err := c.current.Load().keyOf(&doc.keys, r.Key)
	if err != nil {
		return Result{}, c.misaddressed(err)
	}
	doc.Key = append(doc.Key[:0], key...)
	doc.ID = append(doc.ID[:0], r.ID...)
	name := doc.name(c.number)
	p := c.at(name[prefixLen:])
	if err := p.admit(call); err != nil {
		return Result{}, err
	}
	lsn := p.sequence.last.Load() // before the read, which so sees at least what the session token will say
	head, body, err := c.lookup(name, call.Now)
	if err != nil {
		return Result{}, err
	}
	interval := c.account.cfg.Model.Interval(func(m ru.Model) float64 { return r.Factor * m.Read(int(head.size)) })
	charge := interval.Likely
	p.charge(call, interval)
	if body == nil {
		f := refusal.NotFound("the item %q does not exist", doc.ID)
		f.Charge = charge
		return Result{}, p.refuses(f)
	}
	return Result{
		Body: body, ETag: etagOf(&head), Charge: charge, Range: p.ID, LSN: lsn, ItemLSN: head.lsn,
	}, nil
}

// misaddressed finishes a refusal for a partition key that names no logical partition: the first physical partition
// gives it, without a charge, since it has not looked at anything.
func (c *Container) misaddressed(err error) error { return c.parts()[0].refuses(refusal.Of(err)) }

// lookup reads an item; the body is nil when no item has the name.
func (c *Container) lookup(name []byte, now time.Time) (head header, body []byte, err error) {
	st := c.account.store
	e := st.Get(name)
	st.Settle()
	if e == nil {
		return header{}, nil, nil
	}
	if err := head.decode(e.Value()); err != nil || now.Unix() >= head.expiry(c.current.Load().TTL) {
		return header{}, nil, err
	}
	if body, err = e.Body(nil); err != nil {
		return header{}, nil, err
	}
	return head, body, nil
}
