package ingest

import (
	"strconv"

	"binnacle/ingest/decode"
)

// DeadLetter is a record, or one element of it, that was refused. docs/format/message.md has its form.
type DeadLetter struct {
	Topic     string
	Partition int32
	Record    Record
	Bad       decode.Bad
}

// The headers of a dead letter.
const (
	HeaderReason    = "binnacle-reason"
	HeaderDetail    = "binnacle-detail"
	HeaderTopic     = "binnacle-topic"
	HeaderPartition = "binnacle-partition"
	HeaderOffset    = "binnacle-offset"
	HeaderIndex     = "binnacle-index"
)

// Headers are the record's own and those that say why it was refused and where it stood.
func (d *DeadLetter) Headers() []Header {
	own := make([]Header, 0, len(d.Record.Headers)+6)
	own = append(own, d.Record.Headers...)
	for _, h := range []struct{ key, value string }{
		{HeaderReason, string(d.Bad.Reason)},
		{HeaderDetail, d.Bad.Detail},
		{HeaderTopic, d.Topic},
		{HeaderPartition, strconv.Itoa(int(d.Partition))},
		{HeaderOffset, strconv.FormatInt(d.Record.Offset, 10)},
		{HeaderIndex, strconv.Itoa(d.Bad.Index)},
	} {
		own = append(own, Header{h.key, []byte(h.value)})
	}
	return own
}

// deadLetters wait to be acknowledged, in the order of their offsets.
type deadLetters struct {
	waiting []DeadLetter
	busy    int // how many of the first are being published
}

// maxBury bounds one publication.
const maxBury = 500

func (d *deadLetters) add(l DeadLetter) { d.waiting = append(d.waiting, l) }

// first is the lowest offset that is not acknowledged.
func (d *deadLetters) first() (offset int64, ok bool) {
	if len(d.waiting) == 0 {
		return 0, false
	}
	return d.waiting[0].Record.Offset, true
}

// job is the next publication, nil while one is under way or there is nothing to publish.
func (d *deadLetters) job() *Bury {
	if d.busy > 0 || len(d.waiting) == 0 {
		return nil
	}
	d.busy = min(len(d.waiting), maxBury)
	return &Bury{Letters: d.waiting[:d.busy:d.busy]}
}

func (d *deadLetters) done() {
	d.waiting = d.waiting[d.busy:]
	d.busy = 0
}
