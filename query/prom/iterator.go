package prom

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// series is the samples of one label set in the order of time, no instant twice.
type series struct {
	labels  labels.Labels
	times   []int64
	values  []float64
	rounded bool // some value
}

// Labels implements storage.Series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *series) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	i, ok := it.(*iterator)
	if !ok {
		i = &iterator{Iterator: chunkenc.NewNopIterator()}
	}
	i.series, i.at = s, -1
	return i
}

// iterator stands at a sample of a series, at first before all. It is without an error, no sample is a histogram, and
// readings do not say when a counter began.
type iterator struct {
	chunkenc.Iterator // empty
	*series
	at int
}

// Next implements chunkenc.Iterator.
func (i *iterator) Next() chunkenc.ValueType {
	i.at = min(i.at+1, len(i.times))
	return i.kind()
}

// millis is int64 under another name: vet takes a Seek of an int64 for io.Seeker's.
type millis = int64

// Seek implements chunkenc.Iterator.
func (i *iterator) Seek(t millis) chunkenc.ValueType {
	i.at = max(i.at, 0)
	for range 2 { // steps are often one sample apart
		if i.at == len(i.times) || i.times[i.at] >= t {
			return i.kind()
		}
		i.at++
	}
	more, _ := slices.BinarySearch(i.times[i.at:], t)
	i.at += more
	return i.kind()
}

func (i *iterator) kind() chunkenc.ValueType {
	if i.at >= len(i.times) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (i *iterator) At() (time int64, value float64) { return i.times[i.at], i.values[i.at] }

// AtT implements chunkenc.Iterator.
func (i *iterator) AtT() int64 { return i.times[i.at] }

// set is the series of a selector. What they are is found out when the first one is asked for, or before.
type set struct {
	find     func() ([]*series, annotations.Annotations, error)
	found    []*series
	at       int
	warnings annotations.Annotations
	err      error
}

// Next implements storage.SeriesSet.
func (s *set) Next() bool {
	s.resolve()
	s.at++
	return s.err == nil && s.at < len(s.found)
}

// resolve finds out what the series are, once.
func (s *set) resolve() {
	if s.find != nil {
		s.found, s.warnings, s.err = s.find()
		s.find, s.at = nil, -1
	}
}

// At implements storage.SeriesSet.
func (s *set) At() storage.Series { return s.found[s.at] }

// Err implements storage.SeriesSet.
func (s *set) Err() error { return s.err }

// Warnings implements storage.SeriesSet.
func (s *set) Warnings() annotations.Annotations { return s.warnings }
