package decode

import "binnacle/internal/jsonscan"

// jsonWalk is a text of JSON and the place where its reader stands.
type jsonWalk struct {
	scan   jsonscan.Scanner
	source []byte // what is scanned
}

// list reads an array; null is an empty one.
func (d *jsonWalk) list(each func() error) error {
	if d.scan.Next() == 'n' {
		return d.scan.Word("null")
	}
	return d.scan.Array(func(int) error { return each() })
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

// jsonString reads a string; null is an empty one.
func (d *jsonWalk) jsonString() ([]byte, error) {
	if d.scan.Next() == '"' {
		return d.scan.Str()
	}
	return nil, d.scan.Skip(5)
}

// jsonWord reads a string or a number as text; null is empty.
func (d *jsonWalk) jsonWord() ([]byte, error) {
	switch d.scan.Next() {
	case '"':
		return d.scan.Str()
	case 'n':
		return nil, d.scan.Word("null")
	}
	n, err := d.scan.Number()
	return n.Text, err
}
