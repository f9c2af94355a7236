package storetest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// fixture is an implementation under test, without any container of chunks. One of its partition keys takes
// storetest.KeyBytes, within a tenth.
type fixture struct {
	Writer          store.Writer
	Reader          store.Reader
	Headers         store.HeaderReader
	CreateContainer func(name string)
	DeleteContainer func(name string)
	Wait            func(d time.Duration) // moves the store's clock
}

// runChunks checks an implementation of store.Writer and store.Reader; open returns an empty one.
func runChunks(t *testing.T, open func(t *testing.T) fixture) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, fixture)
	}{
		{"create and read", createAndRead},
		{"create never changes what is there", createOnce},
		{"a replacement needs the ETag", replaceChunk},
		{"an id is free under another key", createUnderOtherKeys},
		{"racing creates have one winner", createRace},
		{"a document that is too large", createTooLarge},
		{"a key that is full", createInFullKey},
		{"what is not there", missingDocument},
		{"containers come and go", deletedContainer},
		{"last is the highest number of its chain", lastOfChain},
		{"a scan is of one key and range", scanRange},
		{"a scan in order", scanOrder},
		{"a scan of all devices", scanPrefix},
		{"a scan ends at an error of yield", scanYield},
		{"a scan of what is new", scanSince},
		{"a scan with windows", scanWindows},
		{"a container dropped under a scan", scanDropped},
		{"a scan reports its charge", scanCharge},
		{"a scan's bytes stay as they are until yield returns", scanWithin},
		{"headers of a day", headersOfADay},
		{"what is deleted is gone", deleteChunk},
		{"a context that has ended", contextEnded},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

const container = "chunks-2026-11"

var (
	day = telemetry.Day(20777) // 2026-11-20
	m1  = sharding.Key{Container: container, TenantShard: "acme~4r", Device: "m1"}
	m2  = sharding.Key{Container: container, TenantShard: "acme~4r", Device: "Gerät 2:ß"}
)

// document returns a chunk in its outer form: what the store looks at, and bytes it does not.
func document(key sharding.Key, id chunk.ID, from, to int64, size int) []byte {
	after := int64(id.Number)*10 - 1
	doc, err := json.Marshal(map[string]any{
		"id": id.String(), "v": 1, "type": "chunk", "tenantShard": key.TenantShard, "device": key.Device,
		"from": day.Start() + from, "to": day.Start() + to, "rows": 1, "readings": 1,
		"first": after + 1, "through": after + 10, "after": after, "unique": true, "data": strings.Repeat("x", size),
	})
	if err != nil {
		panic(err)
	}
	return doc
}

func number(n uint32) chunk.ID { return chunk.ID{Day: day, Stream: 1, Partition: 3, Number: n} }

// fill creates chunks 0 to n-1 of one chain under a key; chunk i has the rows of [i*10, i*10+9] ms.
func fill(t *testing.T, f fixture, key sharding.Key, n, size int) {
	t.Helper()
	for i := range n {
		_, err := f.Writer.Create(t.Context(), key, number(uint32(i)).String(),
			document(key, number(uint32(i)), int64(i)*10, int64(i)*10+9, size))
		require.NoError(t, err)
	}
}

// sameChunk requires that got has all the properties of want.
func sameChunk(t *testing.T, want, got []byte) {
	t.Helper()
	var w, g map[string]any
	require.NoError(t, json.Unmarshal(want, &w))
	require.NoError(t, json.Unmarshal(got, &g))
	for name, value := range w {
		require.Equal(t, value, g[name], name)
	}
}

// scan returns the ids of a scan's documents, with the device before those of m2.
func scan(t *testing.T, f fixture, s store.Scan) (ids []string) {
	t.Helper()
	usage, err := f.Reader.Scan(t.Context(), s, func(doc []byte) error {
		var p struct{ ID, Device string }
		if err := json.Unmarshal(doc, &p); err != nil {
			return err
		}
		id, err := chunk.ParseID(p.ID)
		ids = append(ids, fmt.Sprintf("%s/%d", p.Device, id.Number))
		return err
	})
	require.NoError(t, err)
	require.Equal(t, len(ids), usage.Documents)
	require.Positive(t, usage.RUs)
	return ids
}

func millis(from, to int64) telemetry.Range {
	return telemetry.Range{From: day.Start() + from, To: day.Start() + to}
}
