package replay

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"binnacle/ingest/decode"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	CSV          Format = "csv"
	NDJSON       Format = "ndjson"
	LineProtocol Format = "lp"
)

func parseFormat(s string) (Format, error) {
	switch f := Format(strings.ToLower(s)); f {
	case CSV, NDJSON, LineProtocol:
		return f, nil
	case "jsonl":
		return NDJSON, nil
	}
	return "", fmt.Errorf("--format %q is not csv, ndjson or lp", s)
}

// formatByName returns the format of a file's name, empty if it has none.
func formatByName(path string) Format {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".gz")
	f, err := parseFormat(strings.TrimPrefix(filepath.Ext(name), "."))
	if err != nil {
		return ""
	}
	return f
}

// formatByText returns the format by the first line that is neither blank nor a comment of line protocol.
func formatByText(head []byte) Format {
	d := decode.New(decode.Options{Tenant: absent, Device: absent})
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0 || line[0] == '#':
		case line[0] == '{' || line[0] == '[':
			return NDJSON
		case len(d.Decode(decode.Record{Value: line, ContentType: influxType}).Readings) > 0:
			return LineProtocol
		default:
			return CSV
		}
	}
	return CSV
}
