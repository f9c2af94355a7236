package decode

import "binnacle/internal/jsonscan"

// jsonWalk is a text of JSON and the place where its reader stands.
type jsonWalk struct {
	scan   jsonscan.Scanner
	source []byte // what is scanned
}

// later skips a value and returns where it begins.
func (d *jsonWalk) later() (at int, err error) {
	d.scan.Next()
	at = d.scan.At()
	return at, d.scan.Skip(2)
}

// back reads a value that was skipped; nothing if there was none.
func (d *jsonWalk) back(at int, read func() error) error {
	if at == 0 {
		return nil
	}
	end := d.scan.At()
	d.scan.Seek(at)
	err := read()
	if err == nil {
		d.scan.Seek(end)
	}
	return err
}
