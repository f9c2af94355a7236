package prom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"binnacle/internal/jsontext"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// encoded is JSON.
type encoded []byte

// MarshalJSON implements json.Marshaler.
func (e encoded) MarshalJSON() ([]byte, error) { return e, nil }

// maxAnnotations is how many warnings, and how many infos, an answer names.
const maxAnnotations = 10

// appendAnswer appends a whole response.
func appendAnswer(b []byte, a answer) ([]byte, error) {
	b = append(b, `{"status":"success","data":`...)
	data, isJSON := a.data.(encoded)
	if !isJSON {
		var err error
		if data, err = marshal(a.data); err != nil {
			return nil, err
		}
	}
	if a.kind != "" {
		b = append(b, `{"resultType":"`+a.kind+`","result":`...)
	}
	b = append(b, data...)
	if a.stats != nil {
		stats, err := marshal(a.stats)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"stats":`...), stats...)
	}
	if a.kind != "" {
		b = append(b, '}')
	}
	warnings, infos := a.warnings.AsStrings(a.query, maxAnnotations, maxAnnotations)
	for _, said := range []struct {
		name  string
		texts []string
	}{{"warnings", warnings}, {"infos", infos}} {
		if len(said.texts) == 0 {
			continue
		}
		b = append(b, `,"`+said.name+`":[`...)
		for i, s := range said.texts {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsontext.AppendString(b, s)
		}
		b = append(b, ']')
	}
	return append(b, '}'), nil
}

func appendError(b []byte, e *apiError) []byte {
	b = append(b, `{"status":"error","errorType":"`+e.kind+`","error":`...)
	return append(jsontext.AppendString(b, e.detail), '}')
}

// marshal returns the JSON of v without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// appendValue appends the result of a query.
func appendValue(b []byte, v parser.Value) []byte {
	switch v := v.(type) {
	case promql.Scalar:
		return appendPoint(b, v.T, v.V)
	case promql.String:
		b = append(appendTime(append(b, '['), v.T), ',')
		return append(jsontext.AppendString(b, v.V), ']')
	case promql.Vector:
		b = append(b, '[')
		for i, s := range v {
			b = append(appendMetric(separate(b, i), s.Metric), `,"value":`...)
			b = append(appendPoint(b, s.T, s.F), '}')
		}
	case promql.Matrix:
		b = append(b, '[')
		for i, s := range v {
			b = appendMetric(separate(b, i), s.Metric)
			for j, p := range s.Floats {
				if j == 0 {
					b = append(b, `,"values":[`...)
				}
				b = appendPoint(separate(b, j), p.T, p.F)
			}
			if len(s.Floats) > 0 {
				b = append(b, ']')
			}
			b = append(b, '}')
		}
	}
	return append(b, ']')
}

// separate appends a comma before all but the first.
func separate(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

func appendMetric(b []byte, l labels.Labels) []byte {
	b = append(b, `{"metric":{`...)
	i := 0
	l.Range(func(l labels.Label) {
		b = append(jsontext.AppendString(separate(b, i), l.Name), ':')
		b = jsontext.AppendString(b, l.Value)
		i++
	})
	return append(b, '}')
}

func appendPoint(b []byte, t int64, v float64) []byte {
	b = append(appendTime(append(b, '['), t), `,"`...)
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return append(strconv.AppendFloat(b, v, format, -1, 64), `"]`...)
}

// appendTime appends seconds, with three digits behind the point where they are not whole.
func appendTime(b []byte, ms int64) []byte {
	if ms < 0 {
		b, ms = append(b, '-'), -ms
	}
	b = strconv.AppendInt(b, ms/1000, 10)
	if rest := ms % 1000; rest != 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return b
}
