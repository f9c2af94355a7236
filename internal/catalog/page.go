package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"binnacle/internal/wire/bytesread"
)

// Version is that of pages.
const Version = 1

const (
	// TargetBytes is the size to which pages are filled. No page exceeds maxBytes, unless one device does. A KB costs the
	// fewest request units just below 32 KB.
	TargetBytes = 31_800
	maxBytes    = 32_300
	// MaxDevices bounds the devices of a page.
	MaxDevices = 1 << 14
)

// ErrCorrupt says that a page is not what this version writes.
var ErrCorrupt = errors.New("catalog: not a page of a catalog")

// Page is what one document says.
type Page struct {
	// ID is a digest of the content.
	ID      string
	Entries []Entry
	// Account names the account from which a copy of the tenant took the entries, empty for what was read here.
	Account string

	// Updated is the time of the newest thing in the page, ms. A device is forgotten as it was before that.
	Updated int64
	// Forget lists devices; what pages say of such a device up to an instant does not count.
	Forget []Forgotten
	// Applied says that the other pages no longer have the forgotten devices.
	Applied bool
	// Replaces lists pages that earlier pages repeat in full.
	Replaces []string
}

// Forgotten is a device, by a digest of its id, and the instant up to which pages about it do not count. The digest of
// the empty id means all devices.
type Forgotten struct {
	Device  uint64
	Account string // only pages of this account, and by way of it, are meant; empty: all
	Until   int64  // ms
}

// MaxForgotten is how many devices a page forgets at most: 600 KB.
const MaxForgotten = 10_000

// document is a page as it is stored. The store adds the key and the id.
type document struct {
	V        int        `json:"v"`
	Type     string     `json:"type"`
	Devices  int        `json:"devices"`
	Updated  int64      `json:"updated"`
	Account  string     `json:"account,omitempty"`
	Forget   [][]string `json:"forget,omitempty"`
	Applied  bool       `json:"applied,omitempty"`
	Replaces []string   `json:"replaces,omitempty"`
	Columns  int        `json:"columns"` // bytes that data unpacks to
	Data     []byte     `json:"data"`
	// Positions are columns beside those in Data, and PositionColumns their unpacked bytes: earlier releases pass over
	// them, or wrote Sources.
	PositionColumns int    `json:"positionColumns,omitempty"`
	Positions       []byte `json:"positions,omitempty"`
	SourceColumns   int    `json:"sourceColumns,omitempty"`
	Sources         []byte `json:"sources,omitempty"`
}

const documentType = "catalog"

// Encode returns the document of a page, and its id, which follows from the content: the same page is always the same
// document. The entries are normal.
func Encode(p Page) (id string, doc []byte, err error) {
	entries := slices.Clone(p.Entries)
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Device, b.Device) })
	if len(entries) > MaxDevices {
		return "", nil, fmt.Errorf("catalog: %d devices in a page, %d at most", len(entries), MaxDevices)
	}
	for i := 1; i < len(entries); i++ {
		if entries[i].Device == entries[i-1].Device {
			return "", nil, fmt.Errorf("catalog: device %q stands twice in a page", entries[i].Device)
		}
	}
	var w columnWriter
	w.entries(entries)
	d := document{
		V: Version, Type: documentType, Devices: len(entries), Updated: p.Updated, Account: p.Account,
		Applied: p.Applied, Replaces: p.Replaces, Columns: len(w.out), Data: w.packed(),
	}
	var positions columnWriter
	positions.positions(entries)
	d.PositionColumns, d.Positions = len(positions.out), positions.packed()
	for _, f := range p.Forget {
		d.Forget = append(d.Forget, strings.Fields(fmt.Sprintf("%016x %d %s", f.Device, f.Until, f.Account)))
	}
	body, err := json.Marshal(d)
	if err != nil {
		return "", nil, fmt.Errorf("catalog: %w", err)
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16]), body, nil
}

// Decode reads a page. Properties that it does not know are passed over.
func Decode(id string, doc []byte) (Page, error) {
	var d document
	if err := json.Unmarshal(doc, &d); err != nil {
		return Page{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if d.V != Version || d.Type != documentType {
		return Page{}, fmt.Errorf("%w: type %q, version %d", ErrCorrupt, d.Type, d.V)
	}
	if d.Devices < 0 || d.Devices > MaxDevices || min(d.Columns, d.SourceColumns, d.PositionColumns) < 0 ||
		max(d.Columns, d.SourceColumns, d.PositionColumns) > maxUnpacked {
		return Page{}, fmt.Errorf("%w: %d devices in %d bytes", ErrCorrupt, d.Devices, d.Columns)
	}
	p := Page{ID: id, Updated: d.Updated, Account: d.Account, Applied: d.Applied, Replaces: d.Replaces}
	for _, f := range d.Forget {
		var one Forgotten
		if n, _ := fmt.Sscanf(strings.Join(f, " "), "%x %d %s", &one.Device, &one.Until, &one.Account); n < 2 {
			return Page{}, fmt.Errorf("%w: forgets %q", ErrCorrupt, f)
		}
		p.Forget = append(p.Forget, one)
	}
	err := cmp.Or(
		d.readColumns(d.Data, d.Columns, func(r *columnReader) { p.Entries = r.entries() }),
		d.readColumns(d.Sources, d.SourceColumns, func(r *columnReader) { r.sources(p.Entries, false) }),
		d.readColumns(d.Positions, d.PositionColumns, func(r *columnReader) { r.sources(p.Entries, true) }))
	return p, err
}

// readColumns unpacks columns, and has all of them read.
func (d *document) readColumns(data []byte, size int, read func(r *columnReader)) error {
	columns, err := unpack(data, size)
	if err != nil {
		return err
	}
	r := columnReader{bytesread.Reader{Rest: columns}, d.Devices}
	read(&r)
	if err := r.End(); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// Pages makes as few pages of an account's entries as it can, in order: each but the last has about TargetBytes.
func Pages(entries []Entry, updated int64, account string) (out []EncodedPage, err error) {
	for size := len(entries); len(entries) > 0; {
		size = max(1, min(size, len(entries), MaxDevices))
		id, doc, err := Encode(Page{Entries: entries[:size], Updated: updated, Account: account})
		if err != nil {
			return nil, err
		}
		next := size * TargetBytes / len(doc)
		if len(doc) > maxBytes && size > 1 {
			size = min(size-1, next)
			continue
		}
		out = append(out, EncodedPage{id, doc, entries[:size]})
		entries, size = entries[size:], next
	}
	return out, nil
}

// EncodedPage is a page and its document.
type EncodedPage struct {
	ID      string
	Doc     []byte
	Entries []Entry
}
