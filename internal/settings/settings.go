// Package settings reads and writes the fields of configuration structs as text: on the command line, in the
// environment, in a YAML file, and as defaults in their tags. A setting is declared once, as a field of the struct
// that it configures:
//
//	Hold time.Duration `help:"Longest time that a reading waits in memory." default:"${hold=30m}"`
//
// cmd/binnacle makes a flag of it. Its default ${hold=30m} is 30m unless the command that embeds the struct sets
// another (set:"hold=30s"). Defaults gives the same value to a struct that code fills in.
package settings

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/text/duration"
)

// Mebibytes is the kind of a field, type:"mib", that holds bytes and is written in MiB.
const Mebibytes = "mib"

// Set parses a text and stores its value in v.
func Set(v reflect.Value, kind, text string) error {
	if kind == "" {
		if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			return u.UnmarshalText([]byte(text))
		}
	}
	switch {
	case kind == Mebibytes:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n != n<<20>>20 {
			return fmt.Errorf("%q is not a number of MiB", text)
		}
		v.SetInt(n << 20)
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := duration.Parse(text)
		if err != nil {
			return err
		}
		v.SetInt(int64(d))
	default:
		return setBasic(v, text)
	}
	return nil
}

func setBasic(v reflect.Value, text string) (err error) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
	case reflect.Uint64:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		v.SetUint(n)
	case reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v.SetFloat(f)
	case reflect.Slice:
		if text == "" {
			return nil
		}
		v.Set(reflect.ValueOf(strings.Split(text, ",")))
	default:
		err = fmt.Errorf("a setting can't be a %s", v.Type())
	}
	return err
}

// Value returns v as YAML writes it: a number, a bool, a text, or a list of texts. Set reads it back.
func Value(v reflect.Value, kind string) any {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && kind == "" {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	switch {
	case kind == Mebibytes:
		return v.Int() >> 20
	case v.Type() == reflect.TypeFor[time.Duration]():
		return duration.String(time.Duration(v.Int()))
	}
	return v.Interface()
}

// Defaults sets every zero field of the struct to the default in its tag, in embedded structs too. A clock called Now
// becomes time.Now, and a logger that is nil one that discards.
func Defaults[T any](config *T) { defaults(reflect.ValueOf(config).Elem()) }

func defaults(v reflect.Value) {
	for i := range v.NumField() {
		field, tag := v.Field(i), v.Type().Field(i)
		_, embedded := tag.Tag.Lookup("embed")
		embedded = embedded || tag.Anonymous || strings.HasPrefix(tag.Tag.Get("kong"), "embed")
		if field.Kind() == reflect.Struct && embedded {
			defaults(field)
			continue
		}
		if tag.IsExported() {
			switch p := field.Addr().Interface().(type) {
			case *func() time.Time:
				if *p == nil && tag.Name == "Now" {
					*p = time.Now
				}
			case **slog.Logger:
				*p = cmp.Or(*p, slog.New(slog.DiscardHandler))
			}
		}
		text, ok := tag.Tag.Lookup("default")
		if !ok || !field.IsZero() {
			continue
		}
		if inner, isVar := strings.CutPrefix(text, "${"); isVar {
			_, text, _ = strings.Cut(strings.TrimSuffix(inner, "}"), "=")
		}
		if err := Set(field, tag.Tag.Get("type"), text); err != nil {
			panic(fmt.Sprintf("default of %s.%s: %v", v.Type(), tag.Name, err)) // every test that builds the struct finds it
		}
	}
}

// Faults collects what is wrong with settings, so that all of it is reported at once.
type Faults []error

// Check adds a fault unless a setting is right.
func (f *Faults) Check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Within adds a fault unless a number of what is counted is from least to most.
func (f *Faults) Within(what string, n, least, most int) {
	f.Check(n >= least && n <= most, "%d %s: %d to %d are allowed", n, what, least, most)
}

// Add adds errors; nil is none.
func (f *Faults) Add(errs ...error) { *f = append(*f, errs...) }

// Named adds the error of a flag; nil is none.
func (f *Faults) Named(flag string, err error) { f.Check(err == nil, "%s: %w", flag, err) }

// Err returns all faults as one error, nil for none.
func (f *Faults) Err() error { return errors.Join(*f...) }
