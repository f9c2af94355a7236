package prom

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
)

// remoteRead answers an unmodified Prometheus that has this tenant as its remote_read, with samples. Its protocol has
// no room for warnings: an answer that would need one that readings are missing is an error instead.
func (a *api) remoteRead(ctx context.Context, c *call) (answer, error) {
	body, err := io.ReadAll(c.Body)
	if err != nil {
		return answer{}, bad("the body can't be read: %v", err)
	}
	if n, err := s2.DecodedLen(body); err != nil || n > maxFormBytes {
		return answer{}, bad("the body is no snappy block of at most %d MiB", maxFormBytes>>20)
	}
	plain, err := s2.Decode(nil, body)
	if err != nil {
		return answer{}, bad("the body is no snappy block: %v", err)
	}
	var asked prompb.ReadRequest
	if err := asked.Unmarshal(plain); err != nil {
		return answer{}, bad("the body is no ReadRequest: %v", err)
	}
	var out prompb.ReadResponse
	for _, q := range asked.Queries {
		found, err := c.samplesOf(ctx, q)
		if err != nil {
			return answer{}, err
		}
		out.Results = append(out.Results, found)
	}
	encoded, err := out.Marshal()
	if err != nil {
		return answer{}, err
	}
	return answer{protobuf: s2.EncodeSnappy(nil, encoded)}, nil
}

// samplesOf is all samples of one query.
func (c *call) samplesOf(ctx context.Context, q *prompb.Query) (*prompb.QueryResult, error) {
	matchers := make([]*labels.Matcher, 0, len(q.Matchers))
	for _, m := range q.Matchers {
		types := map[prompb.LabelMatcher_Type]labels.MatchType{
			prompb.LabelMatcher_EQ: labels.MatchEqual, prompb.LabelMatcher_NEQ: labels.MatchNotEqual,
			prompb.LabelMatcher_RE: labels.MatchRegexp, prompb.LabelMatcher_NRE: labels.MatchNotRegexp,
		}
		matcher, err := labels.NewMatcher(types[m.Type], m.Name, m.Value)
		if err != nil {
			return nil, bad("matcher of %q: %v", m.Name, err)
		}
		matchers = append(matchers, matcher)
	}
	s := &selector{c.tenantStorage, q.StartTimestampMs, q.EndTimestampMs}
	found, warnings, err := s.read(ctx, s.request(matchers), matchers)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		if errors.Is(w, errIncomplete) {
			return nil, &apiError{"unavailable", http.StatusServiceUnavailable, w.Error()}
		}
	}
	out := &prompb.QueryResult{}
	for _, one := range found {
		ts := &prompb.TimeSeries{Labels: prompb.FromLabels(one.labels, nil)}
		if err := s.memory.Take(16 * int64(len(one.times))); err != nil {
			return nil, bad("the answer needs more memory than a query may use: ask for a shorter range")
		}
		for i, t := range one.times {
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: one.values[i]})
		}
		out.Timeseries = append(out.Timeseries, ts)
	}
	return out, nil
}
