package store

import (
	"encoding/json"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/sharding"
)

// StoredChunk is what a chunk says of itself, as a Reader returns it, without its rows.
type StoredChunk struct {
	chunk.Header
	Key    sharding.Key // without the container
	ETag   string
	Stored int64 // s since 1970 UTC, by the service's clock
	Erased []chunk.Erased
}

// ParseStoredChunk reads a document of a scan. The result does not refer to it.
func ParseStoredChunk(doc []byte) (s StoredChunk, err error) {
	c, err := chunk.Parse(doc)
	if err != nil {
		return s, err
	}
	var extra struct {
		ETag   string  `json:"_etag"`
		Stored float64 `json:"_ts"` // the service prints numbers as floats
		Erased []struct {
			Order, Digest string
			Rows          float64
		} `json:"erased"`
	}
	if err := json.Unmarshal(doc, &extra); err != nil {
		return s, err
	}
	s = StoredChunk{Header: c.Header, ETag: extra.ETag, Stored: int64(extra.Stored)}
	for _, e := range extra.Erased {
		s.Erased = append(s.Erased, chunk.Erased{Order: e.Order, Rows: int(e.Rows), Digest: e.Digest})
	}
	s.TenantShard, s.Device = strings.Clone(s.TenantShard), strings.Clone(s.Device)
	s.Key = sharding.Key{TenantShard: s.TenantShard, Device: s.Device}
	return s, nil
}

// IsFence reports whether the chunk only closes its chain (rule E-R8).
func (s *StoredChunk) IsFence() bool { return s.IsErased() && len(s.Erased) == 0 }
