package settings_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/settings"

	"github.com/stretchr/testify/require"
)

type inner struct {
	Topic string `default:"telemetry"`
	Seen  bool
}

type config struct {
	inner  `embed:""`
	Nested inner         `kong:"embed,group='Nested'"`
	Plain  inner         // no part of the settings
	Hold   time.Duration `default:"${hold=1d12h}"`
	None   string        `default:"${none=}"`
	Memory int64         `type:"mib" default:"1024"`
	Writes int           `default:"32"`
	Seed   uint64        `default:"1"`
	Rate   float64       `default:"2.5"`
	Tags   []string      `default:"a,b"`
	On     bool          `default:"true"`
	Model  ru.Model      `default:"slope"`
	Now    func() time.Time
	Log    *slog.Logger
}

func TestDefaults(t *testing.T) {
	c := config{Writes: 3, Nested: inner{Topic: "mine"}}
	settings.Defaults(&c)
	require.NotNil(t, c.Now)
	require.NotNil(t, c.Log)
	c.Now, c.Log = nil, nil
	require.Equal(t, config{
		inner: inner{Topic: "telemetry"}, Nested: inner{Topic: "mine"}, Hold: 36 * time.Hour, Memory: 1 << 30, Writes: 3,
		Seed: 1,
		Rate: 2.5, Tags: []string{"a", "b"}, On: true, Model: ru.Sloped,
	}, c)
}

func TestInvalidDefault(t *testing.T) {
	require.PanicsWithValue(t, `default of struct { Hold time.Duration "default:\"5x\"" }.Hold: "5x" is not a duration such as 90s, 1h30m, 2d or 1d12h`, func() {
		c := struct {
			Hold time.Duration `default:"5x"`
		}{}
		settings.Defaults(&c)
	})
}

// What Value gives is what Set reads.
func TestValueAndSet(t *testing.T) {
	c := config{inner: inner{Topic: "t", Seen: true}, Hold: 90 * time.Second, Memory: 5 << 20, Seed: 7, Rate: 0.5,
		On: true, Model: ru.Sloped}
	from := reflect.ValueOf(&c).Elem()
	for name, want := range map[string]any{
		"Topic": "t", "Seen": true, "Hold": "1m30s", "Memory": int64(5), "Writes": 0, "Seed": uint64(7), "Rate": 0.5,
		"On": true, "Model": "slope",
	} {
		field, _ := from.Type().FieldByName(name)
		kind := field.Tag.Get("type")
		got := settings.Value(from.FieldByIndex(field.Index), kind)
		require.Equal(t, want, got, name)
		again := reflect.New(field.Type).Elem()
		require.NoError(t, settings.Set(again, kind, text(got)), name)
		require.Equal(t, from.FieldByIndex(field.Index).Interface(), again.Interface(), name)
	}
}

func text(v any) string { return fmt.Sprint(v) }

func TestUnsupportedTypes(t *testing.T) {
	var c config
	v := reflect.ValueOf(&c).Elem()
	for _, x := range []struct{ field, kind, text string }{
		{"Hold", "", "5x"}, {"Memory", "mib", "1G"}, {"Memory", "mib", "9000000000000000"}, {"Writes", "", "many"},
		{"Seed", "", "-1"},
		{"Rate", "", "fast"}, {"On", "", "perhaps"}, {"Model", "", "square"}, {"Now", "", "now"},
	} {
		require.Error(t, settings.Set(v.FieldByName(x.field), x.kind, x.text), "%s %s", x.field, x.text)
	}
}
