package loadtest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A year of the sensors shows what the service's page says of each key, and what it leaves out: keys by time are one
// partition's, a device's key is full within the year, and what is stored makes a synthetic key hot.
func TestYearOfSensors(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Devices, cfg.Seed = 5000, 7
	keys := map[string]SensorKey{}
	for _, k := range sensorKeys(cfg.Devices) {
		y := k.year(cfg.Devices, pageBytes, 10.476*float64(cfg.Devices))
		require.Len(t, y.dollars, 12)
		keys[k.name] = SensorKey{HottestAt: Ends{0, y.begins}, Hottest: Ends{0, last(y.hottest)},
			Accepted: Ends{0, y.accepted}, GB: Ends{0, y.gb}, FullKeys: Ends{0, y.full}, FullInDays: Ends{0, y.fullIn}}
	}
	device := keys["device"]
	require.InDelta(t, 20*1024*1024/86400.0, device.FullInDays.High, 0.01, "20 GB of a document of 1 KB a second")
	require.Equal(t, 5000.0, device.FullKeys.High)
	require.InDelta(t, 243/365.0, device.Accepted.High, 0.01)
	for _, name := range []string{"day", "minute"} {
		require.Equal(t, 9.0, keys[name].HottestAt.High, "all of 9 partitions' load is one's")
		require.Less(t, keys[name].Accepted.High, 0.2)
	}
	require.Equal(t, 365.0, keys["day"].FullKeys.High)
	whole := keys["device, then minute (recommended there)"]
	require.Equal(t, 1.0, round(whole.Accepted.High))
	require.Zero(t, whole.FullKeys.High)
	require.InEpsilon(t, 5000*86400*365/1024.0/1024, whole.GB.High, 1e-6)
	synthetic := keys["device and minute in one text"]
	require.Less(t, synthetic.HottestAt.High, 1.2)
	require.Greater(t, synthetic.Hottest.High, 2*whole.Hottest.High, "a few keys a minute for thousands of partitions")
}

// The report of a small fleet is whole in words, as a page and as figures, and Binnacle costs the least.
func TestSensorsReport(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Scenarios, cfg.Reads, cfg.Floods, cfg.Sensors, cfg.Devices = nil, false, false, true, 200
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	own := r.Sensors.Keys[len(r.Sensors.Keys)-1]
	for _, k := range r.Sensors.Keys[:len(r.Sensors.Keys)-1] {
		require.LessOrEqual(t, k.RUs.Low, k.RUs.Likely, k.Layout)
		require.LessOrEqual(t, k.GB.Low, k.GB.High, k.Layout)
		require.Greater(t, k.Year.Low, own.Year.High, k.Layout)
		require.InDelta(t, 477, k.Serverless.Mean, 17, "5,000 RU/s of 10.5 a sensor and second")
	}
	require.Greater(t, own.Serverless.Busiest, 10_000.0)
	require.Greater(t, own.Serverless.Grow, 10_000.0)
	var text, page bytes.Buffer
	require.NoError(t, Print(&text, r))
	require.Contains(t, text.String(), "grow then")
	require.NoError(t, HTML(&page, r))
	require.Contains(t, page.String(), "<svg")
	require.NotContains(t, page.String(), "ZgotmplZ")
}
