package ingest

import (
	"runtime"

	"binnacle/binning"
	"binnacle/ingest/spill"
)

// shelf puts blocks into a spill file. What nobody refers to any more is given up when the garbage collector finds it:
// blocks are parts of snapshots that queries hold, and nobody counts those.
type shelf struct{ files *spill.Store }

// ShelfOf puts blocks into spill files.
func ShelfOf(files *spill.Store) binning.Shelf { return shelf{files} }

// Put is binning.Shelf.
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

// Get is binning.Shelved.
func (k *spilled) Get() ([]byte, error) {
	data, err := k.files.Get(nil, k.ref)
	runtime.KeepAlive(k)
	return data, err
}
