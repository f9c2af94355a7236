package spill

// File is what a segment is written to.
type File = file

// OpenFiles makes a Store of such files, which become so long.
func OpenFiles(create func() (File, error), limit int64) (*Store, error) { return open(create, limit) }

// Create makes a file as Open does, on a system that unlinks so.
func Create(dir string, unlink func(name string) error) (File, error) { return create(dir, unlink) }
