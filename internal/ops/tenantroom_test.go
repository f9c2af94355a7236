package ops

import (
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/provision"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// A retention is refused with which an account would need more containers than it may have; a shorter one never is.
func TestRetentionThatNeedsTooManyContainersIsRefused(t *testing.T) {
	docs := controltest.NewDocuments(t)
	d := control.NewDirectory(control.DirectoryConfig{Documents: docs, Retention: 30 * 24 * time.Hour})
	_, err := d.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, d.SetPeriod(t.Context(), sharding.PeriodEpoch{Period: sharding.Day}))
	for _, c := range []struct {
		retention string
		fits      bool
	}{
		{"", true}, {"90d", true}, {"10d", true}, {"400d", false}, {"forever", false},
		{"meter-*=400d", false}, {"meter-*=400d,default=1d", false}, {"meter-*=20d", true},
	} {
		_, err := checkRetention(t.Context(), docs, "acme", c.retention)
		if c.fits {
			require.NoError(t, err, c.retention)
		} else {
			require.ErrorIs(t, err, provision.ErrPeriod, c.retention)
		}
	}
	_, err = checkRetention(t.Context(), docs, "nobody", "400d")
	require.NoError(t, err)
	hides, err := checkRetention(t.Context(), docs, "acme", "default=10d,meter-*=30d,test-*=1d")
	require.NoError(t, err)
	require.Len(t, hides, 3)
	require.Regexp(t, `^Days before \d{4}-\d\d-\d\d of devices test-\* are hidden for good from \d{4}.*Z on, and then deleted\.$`, hides[0])
	require.Regexp(t, `^Days before \d{4}-\d\d-\d\d of all other devices are hidden for good`, hides[1])
}
