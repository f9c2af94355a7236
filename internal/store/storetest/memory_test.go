package storetest_test

import (
	"errors"
	"fmt"
	"testing"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// recorder counts what a Memory reports.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestMemoryReportsBrokenRules(t *testing.T) {
	key := sharding.Key{Container: "chunks-2026-11", TenantShard: "acme~4r", Device: "m1"}
	start := telemetry.Day(20777).Start()
	for _, c := range []struct {
		name, id, doc string
		wrong         string // empty: nothing
	}{
		{"a good one", "20261120.1.00003.000000",
			`{"type":"chunk","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":0,"through":3,"after":-1}`, ""},
		{"no JSON", "20261120.1.00003.000000", `%d {`, "JSON"},
		{"another device", "20261120.1.00003.000000",
			`{"type":"chunk","tenantShard":"acme~4r","device":"m2","from":%d,"to":%[1]d,"first":0,"through":3,"after":-1}`,
			"device"},
		{"another type", "20261120.1.00003.000000",
			`{"type":"x","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":0,"through":3,"after":-1}`, "type"},
		{"an id of another form", "m1",
			`{"type":"chunk","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":0,"through":3,"after":-1}`,
			"form"},
		{"rows of another day", "20261121.1.00003.000000",
			`{"type":"chunk","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":0,"through":3,"after":-1}`,
			"day"},
		{"a gap in the chain", "20261120.1.00003.000001",
			`{"type":"chunk","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":4,"through":5,"after":3}`,
			"there is no"},
		{"after in the first of a chain", "20261120.1.00003.000000",
			`{"type":"chunk","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":4,"through":5,"after":3}`,
			"follow"},
		{"ttl of nothing", "20261120.1.00003.000000",
			`{"type":"chunk","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":0,"through":3,"after":-1,"ttl":0}`, "ttl"},
	} {
		r := &recorder{TB: t}
		m := storetest.NewMemory(r, key.Container)
		doc := fmt.Sprintf(c.doc, start)
		if doc[0] == '{' {
			doc = `{"id":"` + c.id + `",` + doc[1:]
		}
		_, err := m.Create(t.Context(), key, c.id, []byte(doc))
		require.NoError(t, err, c.name)
		if c.wrong == "" {
			require.Empty(t, r.errors, c.name)
			continue
		}
		require.NotEmpty(t, r.errors, c.name)
		require.Contains(t, fmt.Sprint(r.errors), c.wrong, c.name)
	}
}

func TestMemoryInjectsFaults(t *testing.T) {
	key := sharding.Key{Container: "chunks-2026-11", TenantShard: "acme~4r", Device: "m1"}
	start := telemetry.Day(20777).Start()
	doc := fmt.Appendf(nil, `{"id":"20261120.1.00003.000000","type":"chunk","tenantShard":"acme~4r","device":"m1","from":%d,"to":%[1]d,"first":0,"through":3,"after":-1}`, start)
	timeout := errors.New("timeout")
	for _, applied := range []bool{true, false} {
		m := storetest.NewMemory(t, key.Container)
		m.Fault = func(op storetest.Op) *storetest.Fault {
			if op.Kind == storetest.Create && op.Call == 1 {
				return &storetest.Fault{Applied: applied, Err: timeout}
			}
			return nil
		}
		_, err := m.Create(t.Context(), key, "20261120.1.00003.000000", doc)
		require.ErrorIs(t, err, timeout)
		_, err = m.Create(t.Context(), key, "20261120.1.00003.000000", doc)
		require.Equal(t, applied, errors.Is(err, store.ErrExists))
		require.Len(t, m.Documents(), 1)
		require.Equal(t, 2, m.Calls(storetest.Create))

		m.Fault = func(storetest.Op) *storetest.Fault { return &storetest.Fault{Hide: 1} }
		_, _, err = m.Last(t.Context(), key, store.Chain{Day: 20777, Stream: 1, Partition: 3})
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}
