// Package jsonbody reads bodies of requests that are one JSON value, and nothing else.
package jsonbody

import (
	"encoding/json"
	"errors"
	"io"
)

var errMore = errors.New("there is more than one value")

// Read decodes the one value that it reads. It fails where members are not known, or where anything but blanks follows.
func Read(from io.Reader, into any) error {
	d := json.NewDecoder(from)
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errMore
	}
	return nil
}
