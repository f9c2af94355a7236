package prom

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"binnacle/internal/text/pattern"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// Bounds of a remote read. A query takes two bytes of the request, and much more than that where it is read and
// answered. A Prometheus sends one.
const (
	maxReadBytes = 1 << 20 // unpacked
	maxReads     = 1000
)

// remoteRead answers an unmodified Prometheus that has this tenant as its remote_read, with samples. The protocol has
// no room for warnings: an answer that would need one that readings are missing is an error instead.
func (a *api) remoteRead(ctx context.Context, c *call) (answer, error) {
	asked, err := c.readRequest()
	if err != nil {
		return answer{}, err
	}
	types := asked.AcceptedResponseTypes
	if len(types) > 0 && !slices.Contains(types, prompb.ReadRequest_SAMPLES) {
		return answer{}, badRequest("none of the response types %v is supported: SAMPLES is", types)
	}
	var out prompb.ReadResponse
	for _, q := range asked.Queries {
		found, err := c.samplesOf(ctx, q)
		if err != nil {
			return answer{}, err
		}
		out.Results = append(out.Results, found)
	}
	// The text, and the block that it is packed into, are there at the same time.
	if err := c.memory.Take(5 * int64(out.Size()) / 2); err != nil {
		return answer{}, c.beyond(err)
	}
	encoded, err := out.Marshal()
	if err != nil {
		return answer{}, err
	}
	return answer{protobuf: s2.EncodeSnappy(nil, encoded)}, nil
}

// readRequest returns the request in the body of a remote read.
func (c *call) readRequest() (asked prompb.ReadRequest, err error) {
	if n, err := s2.DecodedLen(c.sent); err != nil || n > maxReadBytes {
		return asked, badRequest("the body is not a snappy block of at most %d MiB", maxReadBytes>>20)
	}
	plain, err := s2.Decode(nil, c.sent)
	if err != nil {
		return asked, badRequest("the body is not a snappy block: %v", err)
	}
	if err := asked.Unmarshal(plain); err != nil {
		return asked, badRequest("the body is not a ReadRequest: %v", err)
	}
	if n := len(asked.Queries); n > maxReads {
		return asked, badRequest("%d queries in one request; at most %d are allowed", n, maxReads)
	}
	patterns := 0
	for _, q := range asked.Queries {
		for _, m := range q.Matchers {
			if m.Type == prompb.LabelMatcher_RE || m.Type == prompb.LabelMatcher_NRE {
				patterns += pattern.Instructions(m.Value)
			}
		}
	}
	if patterns > pattern.MaxInstructions {
		return asked, badRequest("the regular expressions of the matchers may take %d instructions; at most %d are allowed",
			patterns, pattern.MaxInstructions)
	}
	return asked, nil
}

var matchTypes = map[prompb.LabelMatcher_Type]labels.MatchType{
	prompb.LabelMatcher_EQ: labels.MatchEqual, prompb.LabelMatcher_NEQ: labels.MatchNotEqual,
	prompb.LabelMatcher_RE: labels.MatchRegexp, prompb.LabelMatcher_NRE: labels.MatchNotRegexp,
}

func (c *call) samplesOf(ctx context.Context, q *prompb.Query) (*prompb.QueryResult, error) {
	matchers := make([]*labels.Matcher, 0, len(q.Matchers))
	for _, m := range q.Matchers {
		kind, ok := matchTypes[m.Type]
		if !ok {
			return nil, badRequest("matcher of %q: unknown type %d", m.Name, m.Type)
		}
		matcher, err := labels.NewMatcher(kind, m.Name, m.Value)
		if err != nil {
			return nil, badRequest("matcher of %q: %v", m.Name, err)
		}
		matchers = append(matchers, matcher)
	}
	s := &selector{tenantStorage: c.tenantStorage, mint: q.StartTimestampMs, maxt: q.EndTimestampMs}
	found, warnings, err := s.collect(ctx, s.request(matchers), matchers)
	if err != nil {
		return nil, err
	}
	out := &prompb.QueryResult{}
	for _, one := range found {
		if err := c.memory.Take(16 * int64(len(one.times))); err != nil {
			return nil, c.beyond(err)
		}
		ts := &prompb.TimeSeries{Labels: prompb.FromLabels(one.labels, nil),
			Samples: make([]prompb.Sample, len(one.times))}
		for i, t := range one.times {
			ts.Samples[i] = prompb.Sample{Timestamp: t, Value: one.values[i]}
		}
		out.Timeseries = append(out.Timeseries, ts)
	}
	for _, w := range warnings {
		if errors.Is(w, errIncomplete) {
			return nil, &apiError{"unavailable", http.StatusServiceUnavailable, w.Error()}
		}
	}
	return out, nil
}
