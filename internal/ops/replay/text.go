package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLine is the bytes of a line from which on it is bad: Kafka takes no longer message either.
const maxLine = 1 << 20

// text is a file as lines. It is gunzipped where its name says so, and has lost its byte order mark.
type text struct {
	path  string
	file  *os.File
	in    *bufio.Reader
	size  int64 // size of the file
	read  int64 // bytes of the file that were read
	lines int   // lines taken
}

func openText(path string) (*text, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err // names the file
	}
	t := &text{path: path, file: file}
	if err := t.start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return t, nil
}

func (t *text) start() error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a directory", t.path)
	}
	t.size = info.Size()
	var in io.Reader = counting{t}
	if strings.HasSuffix(strings.ToLower(t.path), ".gz") {
		unzipped, err := gzip.NewReader(bufio.NewReaderSize(in, 1<<16))
		if err != nil {
			return fmt.Errorf("read %s: %w", t.path, err)
		}
		in = unzipped
	}
	t.in = bufio.NewReaderSize(in, maxLine)
	mark := []byte("\ufeff")
	if head, _ := t.in.Peek(len(mark)); bytes.Equal(head, mark) {
		_, _ = t.in.Discard(len(mark))
	}
	return nil
}

// counting reads the file and counts.
type counting struct{ t *text }

func (c counting) Read(b []byte) (int, error) {
	n, err := c.t.file.Read(b)
	c.t.read += int64(n)
	return n, err
}

func (t *text) close() error { return t.file.Close() }

// line takes the next line, its end included. Without ok it was longer than maxLine, and is gone.
func (t *text) line() (line []byte, ok bool, err error) {
	line, err = t.in.ReadSlice('\n')
	ok = true
	for errors.Is(err, bufio.ErrBufferFull) {
		ok = false
		line, err = t.in.ReadSlice('\n')
	}
	switch {
	case err == io.EOF && len(line) == 0 && ok:
		return nil, false, io.EOF
	case err != nil && err != io.EOF:
		return nil, false, fmt.Errorf("read %s: %w", t.path, err)
	}
	t.lines++
	return line, ok, nil
}
