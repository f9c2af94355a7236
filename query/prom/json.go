package prom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"binnacle/internal/wire/jsontext"
	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// pieces is JSON in pieces. What they take is taken before they are made.
type pieces struct {
	memory *query.Memory
	done   [][]byte
	b      []byte // the last one
	spare  []byte // for the labels of a series
}

// Pieces are at most so large, but for what belongs together.
const (
	firstPieceBytes = 4 << 10
	mostPieceBytes  = 1 << 20
)

// room makes sure that there is room for n bytes.
func (p *pieces) room(n int) error {
	if cap(p.b)-len(p.b) >= n {
		return nil
	}
	size := max(n, min(2*cap(p.b), mostPieceBytes), firstPieceBytes)
	if err := p.memory.Take(int64(size)); err != nil {
		return err
	}
	if p.b != nil {
		p.done = append(p.done, p.b)
	}
	p.b = make([]byte, 0, size)
	return nil
}

func (p *pieces) all() [][]byte { return append(p.done, p.b) }

// maxAnnotations is how many warnings, and how many infos, an answer names.
const maxAnnotations = 10

// encodeAnswer returns a whole response, in pieces.
func encodeAnswer(a answer) ([][]byte, error) {
	b := []byte(`{"status":"success","data":`)
	if a.kind == "" {
		data, err := marshal(a.data)
		if err != nil {
			return nil, err
		}
		return [][]byte{appendSaid(append(b, data...), a)}, nil
	}
	out := append([][]byte{append(b, `{"resultType":"`+a.kind+`","result":`...)}, a.result...)
	var end []byte
	if a.stats != nil {
		stats, err := marshal(a.stats)
		if err != nil {
			return nil, err
		}
		end = append(append(end, `,"stats":`...), stats...)
	}
	return append(out, appendSaid(append(end, '}'), a)), nil
}

// appendSaid appends the warnings of an answer, and its end.
func appendSaid(b []byte, a answer) []byte {
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
	return append(b, '}')
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

// Bounds of the JSON of a byte of text, of a point, and of a series without its labels.
const (
	jsonByteBytes   = 6
	jsonPointBytes  = 64
	jsonSeriesBytes = 128
)

// value appends the result of a query.
func (p *pieces) value(v parser.Value) error {
	switch v := v.(type) {
	case promql.Scalar:
		if err := p.room(jsonPointBytes); err != nil {
			return err
		}
		p.b = appendPoint(p.b, v.T, v.V)
		return nil
	case promql.String:
		if err := p.room(jsonPointBytes + jsonByteBytes*len(v.V)); err != nil {
			return err
		}
		p.b = append(appendTime(append(p.b, '['), v.T), ',')
		p.b = append(jsontext.AppendString(p.b, v.V), ']')
		return nil
	case promql.Vector:
		for i, s := range v {
			if err := p.metric(i, s.Metric); err != nil {
				return err
			}
			p.b = append(appendPoint(append(p.b, `,"value":`...), s.T, s.F), '}')
		}
		return p.end(len(v))
	case promql.Matrix:
		for i, s := range v {
			if err := p.metric(i, s.Metric); err != nil {
				return err
			}
			if err := p.points(s.Floats); err != nil {
				return err
			}
			p.b = append(p.b, '}')
		}
		return p.end(len(v))
	}
	return p.end(0)
}

// end appends the end of a list of n series.
func (p *pieces) end(n int) error {
	if err := p.room(len("[]")); err != nil {
		return err
	}
	if n == 0 {
		p.b = append(p.b, '[')
	}
	p.b = append(p.b, ']')
	return nil
}

// metric appends the begin of a series in a list, and leaves room for a point.
func (p *pieces) metric(i int, l labels.Labels) error {
	if most := jsonSeriesBytes + jsonByteBytes*int(l.ByteSize()) + 8*l.Len(); most > cap(p.spare) {
		if err := p.memory.Take(int64(most - cap(p.spare))); err != nil {
			return err
		}
		p.spare = make([]byte, 0, most)
	}
	p.spare = appendMetric(p.spare[:0], l)
	if err := p.room(len(p.spare) + jsonSeriesBytes + jsonPointBytes); err != nil {
		return err
	}
	if i == 0 {
		p.b = append(p.b, '[')
	}
	p.b = append(separate(p.b, i), p.spare...)
	return nil
}

// points appends the points of a series, and leaves room for its end.
func (p *pieces) points(all []promql.FPoint) error {
	for j, point := range all {
		if err := p.room(jsonSeriesBytes + jsonPointBytes); err != nil {
			return err
		}
		if j == 0 {
			p.b = append(p.b, `,"values":[`...)
		}
		p.b = appendPoint(separate(p.b, j), point.T, point.F)
	}
	if len(all) > 0 {
		p.b = append(p.b, ']')
	}
	return nil
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
