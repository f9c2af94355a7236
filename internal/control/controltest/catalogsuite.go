package controltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"binnacle/internal/control"

	"github.com/stretchr/testify/require"
)

// RunCatalog checks an implementation of control.Catalog; open returns an empty one.
func RunCatalog(t *testing.T, open func(t *testing.T) control.Catalog) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, ctx context.Context, catalog control.Catalog)
	}{
		{"write and read", catalogWrite},
		{"write needs the ETag", catalogETag},
		{"a list is of one tenant, in order", catalogList},
		{"a list begins with a prefix", catalogPrefix},
		{"a list ends at an error of yield", catalogYield},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, t.Context(), open(t)) })
	}
}

func device(tenant, name string) control.Device {
	return control.Device{Tenant: tenant, Device: name, Metrics: map[string][]string{"velocity": {"float"}}, First: 1,
		Last: 2}
}

func catalogWrite(t *testing.T, ctx context.Context, catalog control.Catalog) {
	_, ok, err := catalog.Read(ctx, "acme", "m1")
	require.NoError(t, err)
	require.False(t, ok)
	d := control.Device{
		Tenant: "acme", Device: "Gerät 7:x", Tags: map[string]string{"fleet": "nord/süd", "id": "not the store's"},
		Metrics: map[string][]string{"velocity": {"float", "int"}, `a"b\c/😀`: {"text"}},
		Labels:  map[string][]string{"axis": {"", "x", "y"}}, First: -5, Last: 253402300799999,
	}
	etag, err := catalog.Write(ctx, d)
	require.NoError(t, err)
	require.NotEmpty(t, etag)
	got, ok, err := catalog.Read(ctx, d.Tenant, d.Device)
	require.NoError(t, err)
	require.True(t, ok)
	d.ETag = etag
	require.Equal(t, d, got)
}

func catalogETag(t *testing.T, ctx context.Context, catalog control.Catalog) {
	d := device("acme", "m1")
	d.ETag = `"none such"`
	_, err := catalog.Write(ctx, d)
	require.ErrorIs(t, err, control.ErrChanged, "there is no entry")
	d.ETag = ""
	first, err := catalog.Write(ctx, d)
	require.NoError(t, err)
	_, err = catalog.Write(ctx, d)
	require.ErrorIs(t, err, control.ErrChanged, "there is an entry")
	d.ETag, d.Last = first, 77
	second, err := catalog.Write(ctx, d)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	_, err = catalog.Write(ctx, d)
	require.ErrorIs(t, err, control.ErrChanged, "the ETag is an old one")
	got, _, err := catalog.Read(ctx, "acme", "m1")
	require.NoError(t, err)
	require.EqualValues(t, 77, got.Last)
	require.Equal(t, second, got.ETag)
}

func names(t *testing.T, ctx context.Context, catalog control.Catalog, tenant, prefix string) (out []string) {
	t.Helper()
	require.NoError(t, catalog.List(ctx, tenant, prefix, func(d control.Device) error {
		require.Equal(t, tenant, d.Tenant)
		require.NotEmpty(t, d.ETag)
		out = append(out, d.Device)
		return nil
	}))
	return out
}

func catalogList(t *testing.T, ctx context.Context, catalog control.Catalog) {
	require.Empty(t, names(t, ctx, catalog, "acme", ""))
	var want []string
	for i := range 120 {
		name := fmt.Sprintf("d%03d", i*7919%120)
		want = append(want, name)
		_, err := catalog.Write(ctx, device("acme", name))
		require.NoError(t, err)
		if i%10 == 0 {
			_, err = catalog.Write(ctx, device("globex", name))
			require.NoError(t, err)
		}
	}
	slices.Sort(want)
	require.Equal(t, want, names(t, ctx, catalog, "acme", ""))
	require.Len(t, names(t, ctx, catalog, "globex", ""), 12)
	require.Empty(t, names(t, ctx, catalog, "acm", ""))
}

func catalogPrefix(t *testing.T, ctx context.Context, catalog control.Catalog) {
	all := []string{" ", "%", "'", `"`, "a", "a'b", "aa", "ab", "b", "é", "ée", "éé", "ﬁ", "\uffee", "\ud7a3"}
	for _, name := range all {
		_, err := catalog.Write(ctx, device("acme", name))
		require.NoError(t, err)
	}
	for _, prefix := range append(slices.Clone(all), "", "zz") {
		var want []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		require.Equal(t, want, names(t, ctx, catalog, "acme", prefix), "prefix %q", prefix)
	}
}

func catalogYield(t *testing.T, ctx context.Context, catalog control.Catalog) {
	for _, name := range []string{"a", "b", "c"} {
		_, err := catalog.Write(ctx, device("acme", name))
		require.NoError(t, err)
	}
	stop, seen := errors.New("enough"), 0
	err := catalog.List(ctx, "acme", "", func(control.Device) error {
		seen++
		if seen == 2 {
			return stop
		}
		return nil
	})
	require.ErrorIs(t, err, stop)
	require.Equal(t, 2, seen)
}
