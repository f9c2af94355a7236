package audit

import (
	"encoding/json"
	"fmt"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/settings"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// entry is what a chunk says of itself, and where it lies.
type entry struct {
	key                   sharding.Key
	id                    chunk.ID
	first, through, after int64
	from, to              int64
	readings              int64
	misplaced             bool
	inLog                 int64 // readings that the log has of it
	unsure                bool  // the log does not tell how many of a record's readings are in it
}

// chain names a chain, and day and device of it.
type chain struct {
	tenant, device string
	day            telemetry.Day
	stream         uint32
	partition      int32
}

func (e *entry) tenant() string {
	tenant, _, _ := strings.Cut(e.key.TenantShard, "~")
	return tenant
}

func (e *entry) chain() chain {
	return chain{e.tenant(), e.key.Device, e.id.Day, e.id.Stream, e.id.Partition}
}

// stored is a header as it comes, with what can't be left out as pointers.
type stored struct {
	ID          string
	V           *float64
	Type        string
	TenantShard string
	Device      string
	From, To    *float64
	Rows        *float64
	Readings    *float64
	First       *float64
	Through     *float64
	After       *float64
}

// parse reads a header of a container. The entry has the key also when there is an error, and the id if it is one.
func parse(container string, header []byte) (*entry, string, error) {
	var s stored
	err := json.Unmarshal(header, &s)
	e := &entry{key: sharding.Key{Container: container, TenantShard: s.TenantShard, Device: s.Device}}
	if err != nil {
		return e, s.ID, err
	}
	if e.id, err = chunk.ParseID(s.ID); err != nil {
		return e, s.ID, err
	}
	if s.Type != "chunk" {
		return e, s.ID, fmt.Errorf("its type is %q", s.Type)
	}
	var faults settings.Faults
	var v, rows int64
	for _, n := range []struct {
		name  string
		value *float64
		to    *int64
		least int64
	}{
		{"v", s.V, &v, 1}, {"from", s.From, &e.from, 0}, {"to", s.To, &e.to, 0}, {"rows", s.Rows, &rows, 0},
		{"readings", s.Readings, &e.readings, 0}, {"first", s.First, &e.first, 0}, {"through", s.Through, &e.through, 0},
		{"after", s.After, &e.after, -1},
	} {
		if faults.Check(n.value != nil, "it has no %s", n.name); n.value == nil {
			continue
		}
		found := *n.value
		faults.Check(found >= float64(n.least) && found <= 1<<53 && found == float64(int64(found)), "%s is %v", n.name,
			found)
		*n.to = int64(found)
	}
	faults.Check(len(faults) > 0 || rows <= e.readings && (rows > 0 || e.readings == 0), "%d rows of %d readings", rows,
		e.readings)
	return e, s.ID, faults.Err()
}

func decodes(doc []byte) error {
	c, err := chunk.Parse(doc)
	if err == nil {
		_, err = c.Frame(nil)
	}
	return err
}
