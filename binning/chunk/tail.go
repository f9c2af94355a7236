package chunk

import "encoding/json"

// Tail is the part of a chunk document that is the same in every version, because queries of the store rest on it. A
// writer that continues a chain needs no more, and can't rely on more while writers of two versions run.
type Tail struct {
	ID       ID
	Through  int64 // offset of the last record in it
	From, To int64 // least and greatest event time
	IsErased bool  // it has no rows
}

// ParseTail reads the tail of a chunk document of any version. What is not one gives ErrCorrupt.
func ParseTail(doc []byte) (Tail, error) {
	var d struct {
		ID                string
		Through, From, To *int64
		Rows              *int64
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return Tail{}, corrupt("%.200s", err.Error())
	}
	id, err := ParseID(d.ID)
	if err != nil || d.Through == nil || d.From == nil || d.To == nil || *d.Through < 0 || *d.From > *d.To {
		return Tail{}, corrupt("id %.100q with no through, from and to", d.ID)
	}
	return Tail{ID: id, Through: *d.Through, From: *d.From, To: *d.To, IsErased: d.Rows != nil && *d.Rows == 0}, nil
}
