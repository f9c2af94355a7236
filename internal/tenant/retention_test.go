package tenant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

const (
	dayLong = 24 * time.Hour
	lead    = 2 * time.Hour // from a shorter retention until it comes into force
)

// noon is when tests begin.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// retained is a tenant whose retention tests change.
type retained struct {
	t   *testing.T
	now time.Time

	docs *storetest.Documents
	all  *tenant.Tenants
	dir  *control.Directory
}

func newRetained(t *testing.T, retention time.Duration) *retained {
	r := &retained{t: t, now: noon}
	r.docs = storetest.NewDocuments(t)
	r.all = tenant.NewTenants(r.docs)
	r.dir = control.NewDirectory(control.DirectoryConfig{Documents: r.docs, Now: r.clock,
		Retention: retention})
	_, err := r.dir.Register(t.Context(), "acme")
	require.NoError(t, err)
	return r
}

func (r *retained) clock() time.Time { return r.now }

func (r *retained) set(text string) error {
	change, err := tenant.RetentionChange(text, r.clock)
	require.NoError(r.t, err)
	return r.all.Set(r.t.Context(), "acme", change)
}

func (r *retained) tenant() tenant.Tenant {
	v, err := r.dir.Refresh(r.t.Context())
	require.NoError(r.t, err)
	t, ok := v.Tenant("acme")
	require.True(r.t, ok)
	return t
}

func (r *retained) first(device string) string {
	return r.tenant().FirstVisible(device, r.now.UnixMilli()).String()
}

func TestRetentionClasses(t *testing.T) {
	r := newRetained(t, 90*dayLong)
	require.NoError(t, r.set("default=400d,meter-*=10y,*-pump=forever,a*b*c=12h"))
	require.Equal(t, "meter-*=3650d,*-pump=forever,a*b*c=12h,default=400d", r.tenant().RetentionText())
	r.now = noon.Add(lead)
	acme := r.tenant()
	require.Equal(t, "meter-*=3650d,*-pump=forever,a*b*c=12h,default=400d", acme.RetentionText())
	require.Zero(t, acme.Retention, "it is the longest: a release that knows no classes deletes nothing too early")
	today := telemetry.DayOf(noon.UnixMilli()) + 2
	for device, keep := range map[string]time.Duration{
		"meter-7": 3650 * dayLong, "meter-pump": 3650 * dayLong, "x-pump": 0, "a1b2c": 12 * time.Hour, "abc": 12 * time.Hour,
		"acb": 400 * dayLong, "other": 400 * dayLong, "meter": 400 * dayLong,
	} {
		require.Equal(t, keep, acme.RetentionOf(device, today), device)
		require.Equal(t, tenant.Tenant{Retention: keep}.TTL(today, r.now.UnixMilli()),
			acme.TTLOf(device, today, r.now.UnixMilli()), device)
	}
	for text, why := range map[string]string{
		"": "whole seconds", "x": "whole seconds", "a=1d,a=2d": "twice", "*=1d,default=2d": "twice", "a=0s": "whole seconds",
		"a=500ms": "whole seconds", "=1d": "DEVICES=DURATION", "a=1d,b": "DEVICES=DURATION", "a=-1d": "whole seconds",
		"a=200y": "whole seconds",
	} {
		_, err := tenant.RetentionChange(text, time.Now)
		require.ErrorContains(t, err, why, text)
	}
}

// What a shorter retention hides stays hidden (rule X1), and chunks that were written with a shorter one go in time.
func TestShorterAndLongerRetention(t *testing.T) {
	r := newRetained(t, 90*dayLong)
	require.Equal(t, "20260822", r.first("m"))
	require.NoError(t, r.set("30d"))
	r.now = noon.Add(lead)
	require.Equal(t, "20261021", r.first("m"))
	require.NoError(t, r.set("90d"))
	require.Equal(t, "20261021", r.first("m"), "it does not come back")
	require.Equal(t, 30*dayLong, r.tenant().RetentionOf("m", telemetry.DayOf(noon.UnixMilli())),
		"chunks of today may have been written for 30 days")
	require.Equal(t, 90*dayLong, r.tenant().RetentionOf("m", telemetry.DayOf(noon.UnixMilli())+1))
	r.now = noon.Add(31 * dayLong)
	require.Equal(t, "20261121", r.first("m"), "the day after the change is the first that stays longer")
	r.now = noon.Add(80 * dayLong)
	require.Equal(t, "20261121", r.first("m"))
	r.now = noon.Add(92 * dayLong)
	require.Equal(t, "20261122", r.first("m"))
	require.Equal(t, "90d", strings.TrimPrefix(r.tenant().RetentionText(), "default="))
}

// A device that comes to another class keeps what it has lost.
func TestClassChangeShowsNothingAgain(t *testing.T) {
	r := newRetained(t, 0)
	require.NoError(t, r.set("meter-*=10d"))
	r.now = noon.Add(lead)
	require.Equal(t, "20261110", r.first("meter-1"))
	require.Equal(t, "19700101", r.first("other"))
	require.NoError(t, r.set("meter-1=forever,default=forever"))
	require.Equal(t, "20261110", r.first("meter-1"))
	require.Equal(t, "20261110", r.first("meter-2"))
	require.Equal(t, "19700101", r.first("other"))
}

// A shorter retention hides nothing before the time that was announced, and until then another one takes it back: what
// was written meanwhile lives as long as if it had never been set (rule X5).
func TestShorterRetentionIsTakenBack(t *testing.T) {
	for name, right := range map[string]string{"as before": "400d", "another one": "500d",
		"classes": "m=forever,default=400d"} {
		r := newRetained(t, 400*dayLong)
		require.NoError(t, r.set("m=300d,default=400d"))
		r.now = noon.Add(10 * dayLong)
		first := r.first("m")
		says, err := r.tenant().Vanishing("4d", r.now.UnixMilli())
		require.NoError(t, err)
		require.Equal(t, []string{
			"Days before 2026-11-26 of all other devices are hidden for good from 2026-11-30T14:00:00Z on, and then deleted.",
			"Until 2026-11-30T13:55:00Z another tenant set --retention undoes that.",
		}, says)
		require.NoError(t, r.set("4d"))
		today := telemetry.DayOf(r.now.UnixMilli())
		for _, after := range []time.Duration{0, time.Hour, lead - 6*time.Minute} {
			r.now = noon.Add(10 * dayLong).Add(after)
			acme := r.tenant()
			at, coming := acme.RetentionComes()
			require.True(t, coming)
			require.Equal(t, "2026-11-30T14:00:00Z", at.Format(time.RFC3339))
			require.Equal(t, first, r.first("m"))
			require.Equal(t, 300*dayLong, acme.RetentionOf("m", today), "chunks of now")
			require.Equal(t, 400*dayLong, acme.Retention, "containers")
			require.Contains(t, strings.Join(acme.ExplainRetention("m", r.now.UnixMilli()), "\n"),
				"From 2026-11-30T14:00:00Z on its class is default=4d, and days before 2026-11-26 are gone. Until "+
					"2026-11-30T13:55:00Z another tenant set --retention undoes that.")
		}
		require.NoError(t, r.set(right), name)
		r.now = r.now.Add(dayLong)
		require.GreaterOrEqual(t, r.first("m"), first)
		require.Equal(t, "20260204", r.first("m"), name)
		require.Equal(t, 300*dayLong, r.tenant().RetentionOf("m", today), name)
		_, coming := r.tenant().RetentionComes()
		require.False(t, coming)
	}
	r := newRetained(t, 0)
	require.NoError(t, r.set("4d"))
	r.now = noon.Add(lead - time.Minute)
	require.NoError(t, r.set("400d"))
	r.now = noon.Add(lead)
	require.Equal(t, "20261116", r.first("m"), "it was too late: some process may have hidden the days already")
}

// A change counts from when it is stored, however long before an operator began to read what it hides (rule X5).
func TestRetentionCountsFromItsStore(t *testing.T) {
	r := newRetained(t, 0)
	change, err := tenant.RetentionChange("4d", r.clock)
	require.NoError(t, err)
	r.now = noon.Add(3 * time.Hour)
	require.NoError(t, r.all.Set(t.Context(), "acme", change))
	require.Equal(t, "19700101", r.first("m"))
	at, _ := r.tenant().RetentionComes()
	require.Equal(t, r.now.Add(lead), at)
	again, err := tenant.RetentionChange("5d", r.clock)
	require.NoError(t, err)
	r.now = at.Add(time.Hour)
	require.Equal(t, "20261116", r.first("m"))
	require.NoError(t, r.all.Set(t.Context(), "acme", again))
	require.Equal(t, "20261116", r.first("m"), "what is in force is not taken back")
}

// What shortens the retention of some device is told from what does not.
func TestShortens(t *testing.T) {
	for _, c := range []struct {
		before, after string
		shortens      bool
	}{
		{"400d", "40d", true}, {"400d", "400d", false}, {"400d", "4000d", false}, {"forever", "100y", true},
		{"400d", "forever", false}, {"400d", "m-*=10d", true}, {"400d", "m-*=10y", false},
		{"m-*=10y,default=7d", "m-*=10y,default=8d", false}, {"m-*=10y,default=7d", "default=10y", false},
		{"m-*=10y,default=7d", "default=8d", true}, {"m-*=10y,default=7d", "m-1=8d,m-*=10y,default=7d", true},
		{"m-*=10y,default=7d", "m-1=10y,m-*=10y,default=7d", false},
		{"a*=1d,*b=9d,default=2d", "*b=9d,a*=1d,default=2d", false},
		{"*b=9d,a*=1d,default=2d", "a*=1d,*b=9d,default=2d", true}, {"a=12h,default=1d", "a=12h", false},
	} {
		r := newRetained(t, 0)
		require.NoError(t, r.set(c.before))
		r.now = noon.Add(lead)
		says, err := r.tenant().Vanishing(c.after, r.now.UnixMilli())
		require.NoError(t, err)
		require.Equal(t, c.shortens, len(says) > 0, "%s to %s", c.before, c.after)
	}
}

func TestRetentionExplained(t *testing.T) {
	r := newRetained(t, 90*dayLong)
	require.NoError(t, r.set("30d"))
	r.now = noon.Add(dayLong)
	require.NoError(t, r.set("meter-*=forever"))
	r.now = noon.Add(3 * dayLong)
	require.Equal(t, []string{
		"The class of the device is meter-*=forever.",
		"Days before 2026-10-24 are gone: they are refused and not answered.",
		"Days from 2026-10-24 to 2026-11-21 go each 30d after its end, because they may have been written with that " +
			"retention, which was shorter: 2026-10-24 at 2026-11-24T00:00:00Z, 2026-11-21 at 2026-12-22T00:00:00Z.",
		"Days from 2026-11-22 to 2026-11-23 stay for ever.",
	}, r.tenant().ExplainRetention("meter-1", r.now.UnixMilli()))
}

func TestRetentionChangesAreBounded(t *testing.T) {
	r := newRetained(t, 0)
	for i := range 200 {
		require.NoError(t, r.set(fmt.Sprintf("%dd", 30+30*(i%2))), "the same ones are stored once")
		r.now = r.now.Add(lead)
	}
	var err error
	for i := 0; i < 128 && err == nil; i++ {
		err = r.set(fmt.Sprintf("%dd", 300-i))
		r.now = r.now.Add(lead)
	}
	require.NoError(t, err, "what a shorter one covers is not stored")
	for i := 0; i < 128 && err == nil; i++ {
		err = r.set(fmt.Sprintf("%dd", 400+i))
	}
	require.ErrorContains(t, err, "changed too often")
}
