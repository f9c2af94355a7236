package main_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// A terminal shows what a tenant has the most of, of all devices and of some.
func TestCardinality(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0")
	var all []kafka.Message
	for i := range 12 {
		site := []string{"nord", "sued", "west"}[i%3]
		all = append(all, kafka.Message{Value: fmt.Appendf(nil, `{"tenant":"acme","device":"d%02d","ts":%d,`+
			`"tags":{"serial":"s%d","site":%q},"labels":{"axis":"a%d"},"values":{"temp":1.5,"m%d":1}}`,
			i, noon(), i, site, i%2, i%2)})
	}
	d.publish(all...)
	d.answers("acme", nil, everything+"&device=none")
	cardinality := func(args ...string) string {
		p := run(t, time.Minute, append([]string{"cardinality", "--tenant=acme", "--api", d.api}, args...)...)
		p.clean()
		return p.stdout.String()
	}
	require.Equal(t, `tenant   acme
devices  12
series   24, pairs of a device and a metric

metric  devices  types  units
temp    12       float
m0      6        float
m1      6        float

tag     values  devices
serial  12      12
site    3       12

label  values  devices
axis   2       12

device  metrics  labels with values
d00     2        1
d01     2        1
d02     2        1
d03     2        1
d04     2        1
d05     2        1
d06     2        1
d07     2        1
d08     2        1
d09     2        1
and 2 more
`, cardinality())
	require.Equal(t, `tenant   acme
devices  2
series   4, pairs of a device and a metric

metric  devices  types  units
m0      2        float
and 1 more

tag     values  devices
serial  2       2
and 1 more

label  values  devices
axis   1       2

device  metrics  labels with values
d00     2        1
and 1 more
`, cardinality("--match=site=nord", "--match=metric=~m0|x,y", "--top=1"))
	require.Contains(t, cardinality("--prefix=d1"), "devices  2\n")
	var answer struct{ Devices int }
	require.NoError(t, json.Unmarshal([]byte(cardinality("--json")), &answer))
	require.Equal(t, 12, answer.Devices)

	for args, problem := range map[string]string{
		"--top=0": "--top 0 is not above 0", "--match=site": "allowed is a condition like site=nord",
		"--timeout=0": "--timeout",
	} {
		p := run(t, time.Minute, "cardinality", "--tenant=acme", "--api", d.api, args)
		require.Equal(t, 1, p.code)
		require.Contains(t, p.stderr.String(), problem)
	}

	sizes := regexp.MustCompile(`^tenant +devices +series +metrics +values of tags +values of labels +largest device +RU to read
acme +12 +24 +3 +15 +2 +d00 +\d+\.\d
$`)
	soon(t, time.Minute, func() bool {
		p := run(t, time.Minute, "tenant", "sizes", "--cosmos="+d.cosmos)
		require.Zero(t, p.code, p.stderr.String())
		return sizes.MatchString(p.stdout.String())
	}, "the catalog has all, a little later than queriers")
	refused(t, []string{"tenant", "sizes", "--top=0", "--cosmos=" + d.cosmos}, "--top 0 is not above 0")
}
