package ops

import (
	"errors"
	"io/fs"
)

// Reason returns an error without the path, which the caller names.
func Reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
