package decode_test

import (
	"testing"

	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// Readings of a device share a slot, and those of another device have another one, in JSON as in lines.
func TestSlotIsOfTheDevicesName(t *testing.T) {
	d := decode.New(decode.Options{Tenant: "acme", Lines: decode.Lines{DeviceTag: "device"}, Slots: true})
	const lines = "text/plain; format=influx; precision=ms"
	slots := func(contentType, payload string) (out []*int32) {
		got := d.Decode(decode.Record{ContentType: contentType, Value: []byte(payload)})
		require.Empty(t, got.Bad)
		for _, r := range got.Readings {
			out = append(out, r.Slot)
		}
		return out
	}
	for payload, contentType := range map[string]string{
		`[{"device":"x","ts":1,"values":{"a":1}},{"device":"y","ts":1,"values":{"a":1}},` +
			`{"device":"x","ts":2,"values":{"a":1}}]`: "",
		"m,device=x a=1 1\nm,device=y a=1 1\nm,device=x a=2 2\n": lines,
	} {
		for range 2 {
			s := slots(contentType, payload)
			require.Len(t, s, 3)
			require.NotNil(t, s[0])
			require.Same(t, s[0], s[2])
			require.NotSame(t, s[0], s[1])
		}
	}
	object, line := slots("", `{"device":"x","ts":1,"values":{"a":1}}`), slots(lines, "m,device=x a=1 1")
	require.Same(t, object[0], line[0])
}
