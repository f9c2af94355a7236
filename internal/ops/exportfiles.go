package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/text/duration"
	"binnacle/internal/text/report"
)

// exportManifest is export.json, which lists the files of an export.
type exportManifest struct {
	Tenant   string       `json:"tenant"`
	Devices  []string     `json:"devices,omitempty"` // empty: all
	From     string       `json:"from,omitempty"`
	To       string       `json:"to,omitempty"`
	Format   string       `json:"format"`
	Started  time.Time    `json:"started"`
	Finished *time.Time   `json:"finished,omitempty"` // nil: it was interrupted
	Files    []exportFile `json:"files"`
}

// exportFile is one file: of devices, of annotations, or of a day.
type exportFile struct {
	Name   string `json:"name"`
	Day    string `json:"day,omitempty"`
	Rows   int64  `json:"rows,omitempty"` // readings of a day in NDJSON, and devices
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// The files of an export that belong to no day.
const (
	manifestFile    = "export.json"
	devicesFile     = "devices.ndjson"
	annotationsFile = "annotations.json"
)

// open makes the directory, or reads what an earlier export has left in it.
func (x *exporter) open() error {
	if err := os.MkdirAll(x.Out, 0o750); err != nil {
		return err
	}
	x.list = exportManifest{Tenant: x.Tenant, Devices: x.Device, From: x.From, To: x.To, Format: x.Format,
		Started: time.Now().UTC().Truncate(time.Second)}
	path := filepath.Join(x.Out, manifestFile)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !x.Resume:
		return fmt.Errorf("%s has an export already: --resume goes on with it", x.Out)
	}
	var before exportManifest
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if before.Tenant != x.Tenant || before.Format != x.Format || before.From != x.From || before.To != x.To ||
		!slices.Equal(before.Devices, x.Device) {
		return fmt.Errorf("%s is an export of something else: give the same tenant, devices, days and format", path)
	}
	if before.Finished != nil {
		return fmt.Errorf("%s says that the export was finished at %s", path, before.Finished.Format(time.RFC3339))
	}
	x.list = before
	return nil
}

// write writes a file, under its name once it is whole.
func (x *exporter) write(name string, content func(io.Writer) (rows int64, err error)) (out exportFile, err error) {
	f, err := os.CreateTemp(x.Out, name+".*.part")
	if err != nil {
		return out, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	sum := &countedHash{Hash: sha256.New()}
	rows, err := content(io.MultiWriter(f, sum))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return out, err
	}
	return exportFile{Name: name, Rows: rows, Bytes: sum.bytes, SHA256: hex.EncodeToString(sum.Sum(nil))},
		os.Rename(f.Name(), filepath.Join(x.Out, name))
}

// add lists complete files; earlier files with the same names are listed no longer.
func (x *exporter) add(files ...exportFile) error {
	for _, f := range files {
		x.list.Files = slices.DeleteFunc(x.list.Files, func(old exportFile) bool { return old.Name == f.Name })
	}
	x.list.Files = append(x.list.Files, files...)
	return x.save()
}

type countedHash struct {
	hash.Hash
	bytes int64
}

func (h *countedHash) Write(p []byte) (int, error) {
	h.bytes += int64(len(p))
	return h.Hash.Write(p)
}

func (x *exporter) save() error {
	text, err := json.MarshalIndent(x.list, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(x.Out, manifestFile)
	if err := os.WriteFile(path+".part", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// removeParts removes what an export that was interrupted has left of a day.
func (x *exporter) removeParts(name string) error {
	left, err := os.ReadDir(x.Out)
	for _, file := range left {
		if rest, isPart := strings.CutPrefix(file.Name(), name); isPart && strings.IndexAny(rest, "-.") == 0 {
			err = errors.Join(err, os.Remove(filepath.Join(x.Out, file.Name())))
		}
	}
	return err
}

func (x *exporter) print(w io.Writer) error {
	var rows, size int64
	for _, f := range x.list.Files {
		if size += f.Bytes; f.Name != devicesFile {
			rows += f.Rows
		}
	}
	lines := [][]string{{"files", strconv.Itoa(len(x.list.Files))}, {"devices", report.Thousands(len(x.devices))}}
	if x.Format == "ndjson" {
		lines = append(lines, []string{"readings", report.Thousands(rows)})
	}
	lines = append(lines, []string{"bytes", report.Thousands(size)},
		[]string{"took", duration.String(x.list.Finished.Sub(x.list.Started))},
		[]string{"list", filepath.Join(x.Out, manifestFile)})
	return report.List(w, lines)
}
