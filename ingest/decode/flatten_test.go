package decode_test

import (
	"fmt"
	"testing"
	"unicode/utf8"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// values are readings as a plain map: where a value belongs to, and what it is.
type values map[string]string

func (v values) put(tenant, device string, at int64, labels telemetry.Labels, metric string, value telemetry.Value) {
	key := fmt.Sprintf("%s %s %d %q %s", tenant, device, at, labels, metric)
	v[key] = fmt.Sprintf("%s %x %q", value.Kind(), value.Bits(), value)
}

// flat checks what every Result promises, and makes a map of its readings.
func flat(t testing.TB, got decode.Result) values {
	t.Helper()
	all := values{}
	require.Len(t, got.Index, len(got.Readings))
	n := 0
	for _, r := range got.Readings {
		require.NoError(t, telemetry.CheckTenant(r.Tenant))
		require.NoError(t, telemetry.CheckDevice(r.Device))
		require.NotEmpty(t, r.Fields)
		for i, f := range r.Fields {
			require.NoError(t, telemetry.CheckName("metric", f.Metric))
			require.NotZero(t, f.Value.Kind())
			require.True(t, i == 0 || r.Fields[i-1].Metric < f.Metric)
			all.put(r.Tenant, r.Device, r.Time, r.Labels, f.Metric, f.Value)
			n++
		}
	}
	require.Len(t, all, n, "a value stands twice")
	return all
}

// sound checks a Result that a hostile payload gave.
func sound(t testing.TB, got decode.Result) {
	t.Helper()
	require.Len(t, got.Index, len(got.Readings))
	for _, r := range got.Readings {
		require.NoError(t, telemetry.CheckTenant(r.Tenant))
		require.NoError(t, telemetry.CheckDevice(r.Device))
		require.NotEmpty(t, r.Fields)
		for i, f := range r.Fields {
			require.NoError(t, telemetry.CheckName("metric", f.Metric))
			require.NotZero(t, f.Value.Kind())
			require.True(t, i == 0 || r.Fields[i-1].Metric < f.Metric)
		}
		for what, labels := range map[string]telemetry.Labels{"label": r.Labels, "tag": r.Tags} {
			for i, l := range labels {
				require.NoError(t, telemetry.CheckName(what, l.Name))
				require.True(t, i == 0 || labels[i-1].Name < l.Name)
				require.True(t, utf8.ValidString(l.Value))
			}
		}
	}
	for _, b := range got.Bad {
		require.Contains(t, decode.Reasons(), b.Reason)
		require.Less(t, len(b.Detail), 1000)
		require.NotContains(t, b.Detail, decode.Panicked)
	}
}
