package spill

// Create makes a file as Open does, on a system that unlinks so.
func Create(dir string, unlink func(name string) error) (File, error) { return create(dir, unlink) }
