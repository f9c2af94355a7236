package tenant_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// tenantWith is a registered tenant acme, and what sets it.
func tenantWith(t *testing.T) (set func(...tenant.Change) error, read func() tenant.Tenant) {
	t.Helper()
	docs := storetest.NewDocuments(t)
	_, err := control.NewDirectory(control.DirectoryConfig{Documents: docs}).Register(t.Context(), "acme")
	require.NoError(t, err)
	tenants := tenant.NewTenants(docs)
	set = func(changes ...tenant.Change) error { return tenants.Set(t.Context(), "acme", changes...) }
	return set, func() tenant.Tenant {
		all, err := tenants.List(t.Context())
		require.NoError(t, err)
		return all[0]
	}
}

// Every setting reads as it was set, in the words of the flags; and what is read can be set.
func TestSettingsReadAsTheyWereSet(t *testing.T) {
	t.Parallel()
	set, read := tenantWith(t)
	before := read().Settings()
	texts := map[string]string{"lookback": "25m", "retention": "meter-*=10d,default=400d",
		"pin": "20", "display-name": "Acme Freight", "contact": "fleet@acme.example", "ingest-over": "refuse"}
	var want []tenant.Setting
	for i, s := range before {
		text, ok := texts[s.Name]
		switch {
		case ok:
		case s.Name == "ingest-burst" || s.Name == "ingest-past" || s.Name == "ingest-future":
			text = strconv.Itoa(i) + "m"
		default:
			text = strconv.Itoa(i)
		}
		want = append(want, tenant.Setting{Name: s.Name, Value: text})
	}
	for _, all := range [][]tenant.Setting{want, before} {
		for _, s := range all {
			changes, err := s.Changes(time.Now)
			require.NoError(t, err, s)
			require.NoError(t, set(changes...))
			for _, c := range changes {
				require.True(t, strings.HasPrefix(c.String(), s.Name+" "), "actions name what was set as its flag: %s", c)
			}
		}
		require.Equal(t, all, read().Settings())
	}
	for _, s := range []tenant.Setting{{"nothing", "1"}, {"query-rate", "-1"}, {"query-rate", "unchanged"}, {"pin", "0"},
		{"pin", "x"}, {"lookback", "x"}, {"contact", "a\nb"}, {"display-name", strings.Repeat("a", 201)}} {
		_, err := s.Changes(time.Now)
		require.ErrorContains(t, err, s.Name)
	}
}

// What earlier builds stored of averages means nothing: such a tenant is read as any other.
func TestStoredAveragesAreRead(t *testing.T) {
	t.Parallel()
	docs := storetest.NewDocuments(t)
	body := []byte(`{"created":1795176000000,"epoch":{"slots":[1]},"averages":"nearest","lookbackSeconds":60}`)
	_, err := docs.Create(t.Context(), store.Document{Kind: tenant.Kind, ID: "acme", Body: body})
	require.NoError(t, err)
	all, err := tenant.NewTenants(docs).List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "acme", all[0].Name)
	require.Equal(t, time.Minute, all[0].Lookback)
}

// Tags are set and removed one by one, and their number is bounded.
func TestTags(t *testing.T) {
	t.Parallel()
	set, read := tenantWith(t)
	tags := func(tags map[string]string) error {
		changes, err := tenant.TagChanges(tags)
		require.NoError(t, err)
		return set(changes...)
	}
	require.NoError(t, tags(map[string]string{"plan": "gold", "region": "eu=west"}))
	require.NoError(t, tags(map[string]string{"plan": "", "a.b/c": "x"}))
	require.Equal(t, map[string]string{"region": "eu=west", "a.b/c": "x"}, read().Tags)
	many := map[string]string{}
	for i := range 50 {
		many["t"+strconv.Itoa(i)] = "x"
	}
	require.ErrorContains(t, tags(many), "at most 50 tags")
	require.Len(t, read().Tags, 2, "all or nothing")
	require.NoError(t, tags(map[string]string{"region": "", "a.b/c": ""}))
	require.Empty(t, read().Tags)
	for _, bad := range []map[string]string{{"": "x"}, {"a b": "x"}, {"-a": "x"}, {"a": "x\x00"}} {
		_, err := tenant.TagChanges(bad)
		require.Error(t, err, bad)
	}
}
