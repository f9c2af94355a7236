package chunk

import "encoding/json"

// Tail is what every version of a chunk document tells in the same words: who goes on behind a chunk needs no more, and can't
// expect more while writers of two versions are about.
type Tail struct {
	ID       ID
	Through  int64 // offset of the last record in it
	From, To int64 // least and greatest event time
}

// ParseTail reads the tail of a chunk document of any version; of one that does not tell its times, they may be any of its day.
// What is not a chunk gives ErrCorrupt.
func ParseTail(doc []byte) (Tail, error) {
	var d struct {
		ID       string
		Through  *int64
		From, To *int64
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return Tail{}, corrupt("%.200s", err.Error())
	}
	id, err := ParseID(d.ID)
	if err != nil || d.Through == nil || *d.Through < 0 {
		return Tail{}, corrupt("id %.100q with no through", d.ID)
	}
	t := Tail{ID: id, Through: *d.Through, From: id.Day.Start(), To: id.Day.End() - 1}
	if d.From != nil && d.To != nil {
		t.From, t.To = *d.From, *d.To
	}
	return t, nil
}
