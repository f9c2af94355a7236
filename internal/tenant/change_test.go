package tenant_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"
)

// What a later version has stored of a tenant stays, at any depth, whatever this one changes beside it.
func TestChangesKeepUnknownProperties(t *testing.T) {
	t.Parallel()
	docs := storetest.NewDocuments(t)
	const before = `{"created":1795176000000,"epoch":{"slots":[1],"later":[1]},"later":{"a":9007199254740993},` +
		`"limits":{"query":{"samples":5,"later":7},"later":{}},"tags":{"a":"b"},"suspended":{"since":1,"reason":"x"}}`
	const after = `{"created":1795176000000,"epoch":{"slots":[1],"later":[1]},"later":{"a":9007199254740993},` +
		`"limits":{"query":{"rusPerSecond":3,"later":7},"later":{},"ingest":{"burstSeconds":60}}}`
	_, err := docs.Create(t.Context(), store.Document{Kind: tenant.Kind, ID: "acme", Body: []byte(before)})
	require.NoError(t, err)
	changes := tenant.QueryLimits{Samples: tenant.Unset, RUs: 3}.Changes()
	changes = append(changes, tenant.Ingest{IngestLimits: tenant.IngestLimits{Burst: 60}}.Changes()...)
	tags, err := tenant.TagChanges(map[string]string{"a": ""})
	require.NoError(t, err)
	changes = append(append(changes, tags...), tenant.ResumeChange())
	require.Equal(t, "[query-rus 3 query-samples default ingest-burst 1m tag:a none suspended default]",
		fmt.Sprint(changes))
	require.NoError(t, tenant.NewTenants(docs).Set(t.Context(), "acme", changes...))
	d, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	require.JSONEq(t, after, string(d.Body))
}

// Each field of the limits is a setting with the name of its flag.
func TestEachLimitIsASetting(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range (tenant.Tenant{}).Settings() {
		names[s.Name] = true
	}
	for _, limits := range []any{tenant.QueryLimits{}, tenant.Ingest{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(limits)) {
			if f.Anonymous {
				continue
			}
			name := f.Tag.Get("name")
			require.True(t, names[name], f.Name)
			value := "7"
			switch f.Type {
			case reflect.TypeFor[tenant.OnExcess]():
				value = "refuse"
			case reflect.TypeFor[tenant.Period]():
				value = "7m"
			}
			changes, err := tenant.Setting{Name: name, Value: value}.Changes(time.Now)
			require.NoError(t, err)
			require.Equal(t, "["+strings.Join([]string{name, value}, " ")+"]", fmt.Sprint(changes))
		}
	}
}
