package ingest

import (
	"runtime"

	"binnacle/binning"
	"binnacle/ingest/journal/spill"
)

// shelf puts blocks into a spill file. A block is freed when the garbage collector finds that nothing refers to it:
// blocks are parts of head reads that queries hold, and these are not counted.
type shelf struct{ files *spill.Store }

// ShelfOf returns a shelf in spill files.
func ShelfOf(files *spill.Store) binning.Shelf { return shelf{files} }

// Put implements binning.Shelf.
func (s shelf) Put(data []byte) (binning.Shelved, error) {
	ref, err := s.files.Put(data)
	if err != nil {
		return nil, err
	}
	k := &spilled{s.files, ref}
	runtime.AddCleanup(k, s.files.Free, ref)
	return k, nil
}

// spilled is a block in a spill file.
type spilled struct {
	files *spill.Store
	ref   spill.Ref
}

// Get implements binning.Kept.
func (k *spilled) Get() ([]byte, error) {
	data, err := k.files.Get(nil, k.ref)
	runtime.KeepAlive(k)
	return data, err
}
