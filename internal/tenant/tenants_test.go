package tenant_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// What an operator sets is in the next View, and nothing else of the tenant is touched, not even what only another
// version knows.
func TestSetLookback(t *testing.T) {
	docs := storetest.NewDocuments(t)
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: time.Now})
	for _, name := range []string{"globex", "acme"} {
		_, err := d.Register(t.Context(), name)
		require.NoError(t, err)
	}
	doc, found, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	require.True(t, found)
	doc.Body = append([]byte(`{"later":9007199254740993,`), doc.Body[1:]...)
	_, err = docs.Replace(t.Context(), doc)
	require.NoError(t, err)

	tenants := tenant.NewTenants(docs)
	lookback := func() time.Duration {
		v, err := d.Refresh(t.Context())
		require.NoError(t, err)
		known, ok := v.Tenant("acme")
		require.True(t, ok)
		return known.Lookback
	}
	require.Zero(t, lookback())
	require.NoError(t, tenants.Set(t.Context(), "acme", lookbackOf(t, 25*time.Minute)))
	require.Equal(t, 25*time.Minute, lookback())
	all, err := tenants.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "acme", all[0].Name)
	require.Equal(t, 25*time.Minute, all[0].Lookback)
	require.Zero(t, all[1].Lookback)
	require.NoError(t, tenants.Set(t.Context(), "acme", lookbackOf(t, 0)))
	require.Zero(t, lookback())
	after, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	require.JSONEq(t, string(doc.Body), string(after.Body))
	var later struct{ Later json.Number }
	require.NoError(t, json.Unmarshal(after.Body, &later))
	require.Equal(t, "9007199254740993", later.Later.String())

	require.ErrorIs(t, tenants.Set(t.Context(), "initech", lookbackOf(t, time.Minute)), tenant.ErrNoTenant)
	_, err = tenant.LookbackChange(1500 * time.Millisecond)
	require.ErrorContains(t, err, "seconds")
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, tenants.Set(ended, "acme", lookbackOf(t, time.Minute)), context.Canceled)
}

func lookbackOf(t *testing.T, d time.Duration) tenant.Change {
	t.Helper()
	c, err := tenant.LookbackChange(d)
	require.NoError(t, err)
	return c
}

// Limits are set one by one, and taken back so that nothing of them is left.
func TestSetQueryLimits(t *testing.T) {
	docs := storetest.NewDocuments(t)
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: time.Now})
	_, err := d.Register(t.Context(), "acme")
	require.NoError(t, err)
	before, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	tenants := tenant.NewTenants(docs)
	set := func(l tenant.QueryLimits) tenant.QueryLimits {
		require.NoError(t, tenants.Set(t.Context(), "acme", l.Changes()...))
		v, err := d.Refresh(t.Context())
		require.NoError(t, err)
		known, ok := v.Tenant("acme")
		require.True(t, ok)
		return known.Queries
	}
	require.Equal(t, tenant.QueryLimits{Rate: 2.5, Samples: tenant.Unbounded},
		set(tenant.QueryLimits{Rate: 2.5, Samples: tenant.Unbounded}))
	require.Equal(t, tenant.QueryLimits{Rate: 2.5, Concurrency: 4, RUs: 100, RUsOfDay: 5e6, Samples: tenant.Unbounded},
		set(tenant.QueryLimits{Concurrency: 4, RUs: 100, RUsOfDay: 5e6}))
	doc, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	var body map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(doc.Body, &body))
	require.JSONEq(t, `{"query":{"requestsPerSecond":2.5,"concurrent":4,"rusPerSecond":100,"rusPerDay":5000000,
		"samples":-1}}`, string(body["limits"]))
	require.Equal(t, tenant.QueryLimits{RUs: 100},
		set(tenant.QueryLimits{Rate: tenant.Unset, Concurrency: tenant.Unset, RUsOfDay: tenant.Unset,
			Samples: tenant.Unset}))
	require.Zero(t, set(tenant.QueryLimits{RUs: tenant.Unset}))
	after, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	require.JSONEq(t, string(before.Body), string(after.Body))
}

// A bound is spelt as it is shown.
func TestLimitText(t *testing.T) {
	for text, want := range map[string]tenant.Limit{
		"none": tenant.Unbounded, "default": tenant.Unset, "2.5": 2.5, "5e6": 5e6,
	} {
		var b tenant.Limit
		require.NoError(t, b.UnmarshalText([]byte(text)))
		require.Equal(t, want, b)
		var again tenant.Limit
		require.NoError(t, again.UnmarshalText([]byte(b.String())))
		require.Equal(t, b, again)
	}
	for _, text := range []string{"", "0", "-1", "NaN", "Inf", "many"} {
		var b tenant.Limit
		require.Error(t, b.UnmarshalText([]byte(text)), text)
	}
	require.Equal(t, tenant.Limit(7), tenant.Default.Or(7))
	require.Equal(t, tenant.Limit(7), tenant.Unset.Or(7))
	require.Equal(t, tenant.Unbounded, tenant.Unbounded.Or(7))
	require.Equal(t, tenant.Limit(3), tenant.Limit(3).Or(7))
	for text, want := range map[string]tenant.Limit{"-3": tenant.Default, "-1": tenant.Unbounded, "4": 4} {
		var b tenant.Limit
		require.NoError(t, json.Unmarshal([]byte(text), &b))
		require.Equal(t, want, b)
	}
}

// Limits of readings stand beside those of queries, lengths of time and what becomes of readings above a rate too.
func TestSetIngestLimits(t *testing.T) {
	docs := storetest.NewDocuments(t)
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: time.Now})
	_, err := d.Register(t.Context(), "acme")
	require.NoError(t, err)
	before, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	tenants := tenant.NewTenants(docs)
	set := func(changes ...tenant.Change) tenant.Tenant {
		require.NoError(t, tenants.Set(t.Context(), "acme", changes...))
		v, err := d.Refresh(t.Context())
		require.NoError(t, err)
		known, ok := v.Tenant("acme")
		require.True(t, ok)
		return known
	}
	var said, taken tenant.Ingest
	for text, into := range map[string]interface{ UnmarshalText([]byte) error }{
		"1000": &said.Readings, "2e4": &said.Values, "10": &said.DeviceReadings, "none": &said.DeviceValues,
		"5m": &said.Burst, "refuse": &said.OnExcess, "500": &said.Devices,
		"30": &said.NewDevices, "64": &said.Series, "70000": &said.TotalSeries,

		"65536": &said.Payload, "8": &said.Labels, "1000000": &said.LabelValues,
		"30d": &said.Past, "90s": &said.Future,
	} {
		require.NoError(t, into.UnmarshalText([]byte(text)))
	}
	require.Nil(t, set(tenant.QueryLimits{Rate: 2}.Changes()...).Ingest)
	known := set(said.Changes()...)
	require.Equal(t, said, *known.Ingest)
	require.Equal(t, tenant.Limit(2), known.Queries.Rate)
	require.True(t, known.Ingest.Any())
	require.Equal(t, "[{ingest-readings 1000} {ingest-values 20000} {ingest-device-readings 10} "+
		"{ingest-device-values none} {ingest-burst 5m} {ingest-over refuse} {ingest-devices 500} {ingest-new-devices 30} "+
		"{ingest-series 64} {ingest-total-series 70000} {ingest-payload 65536} {ingest-labels 8} "+
		"{ingest-label-values 1000000} {ingest-past 30d} {ingest-future 1m30s}]", fmt.Sprint(known.Settings()[10:]))

	for _, into := range []interface{ UnmarshalText([]byte) error }{
		&taken.Readings, &taken.Values, &taken.DeviceReadings, &taken.DeviceValues, &taken.Burst, &taken.OnExcess,
		&taken.Devices, &taken.NewDevices, &taken.Series, &taken.TotalSeries,
		&taken.Payload, &taken.Labels, &taken.LabelValues,
		&taken.Past, &taken.Future,
	} {
		require.NoError(t, into.UnmarshalText([]byte("default")))
	}
	require.Nil(t, set(append(taken.Changes(), tenant.QueryLimits{Rate: tenant.Unset}.Changes()...)...).Ingest)
	after, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	require.JSONEq(t, string(before.Body), string(after.Body))

	byDefault := tenant.IngestLimits{Values: 7, Burst: 60, OnExcess: tenant.Delay}
	require.Equal(t, said.IngestLimits, said.IngestLimits.Or(byDefault))
	require.Equal(t, byDefault, taken.IngestLimits.Or(byDefault))
	require.False(t, taken.Any())
	for i := range reflect.TypeFor[tenant.IngestLimits]().NumField() {
		var one tenant.IngestLimits
		if v := reflect.ValueOf(&one).Elem().Field(i); v.Type() == reflect.TypeFor[tenant.Limit]() {
			v.SetFloat(1)
			require.True(t, one.Any(), "field %d", i)
		}
	}
	past, bounded := said.Past.Of()
	require.True(t, bounded)
	require.Equal(t, 30*24*time.Hour, past)
	require.Error(t, new(tenant.Period).UnmarshalText([]byte("10ms")))
	require.Error(t, new(tenant.OnExcess).UnmarshalText([]byte("drop")))
}
