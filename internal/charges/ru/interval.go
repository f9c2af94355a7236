package ru

// Interval is what the same operations are charged, in RU: Likely by a model, Other by its other model, Low and High by
// the least and the most that the assumptions allow.
type Interval struct {
	Low    float64 `json:"low"`
	Likely float64 `json:"likely"`
	Other  float64 `json:"other_model"`
	High   float64 `json:"high"`
}

// Interval returns what a charge is by the model, by the other one, and at least and at most. Every charge grows with
// every assumption, so the bounds come from the models with the least, or the most, of every assumption.
func (m Model) Interval(charge func(Model) float64) Interval {
	low, high := m, m
	low.sloped, low.end = true, least
	high.sloped, high.end = false, most
	return Interval{charge(low), charge(m), charge(m.Other()), charge(high)}
}

// Certain returns the interval of a charge that no assumption is part of.
func Certain(rus float64) Interval { return Interval{rus, rus, rus, rus} }

// Plus returns the interval of both together.
func (i Interval) Plus(o Interval) Interval {
	return Interval{i.Low + o.Low, i.Likely + o.Likely, i.Other + o.Other, i.High + o.High}
}

// Times returns the interval of n times as much.
func (i Interval) Times(n float64) Interval {
	return Interval{n * i.Low, n * i.Likely, n * i.Other, n * i.High}
}

// The ends of an Interval, as a Model's end. The likely is 0.
const (
	least = -1
	most  = 1
)

// assumed is a part of a charge that no recording shows: the least, the likely and the most that it may be.
type assumed [3]float64

func (a assumed) of(m Model) float64 { return a[1+m.end] }

// systemBytes is the size of an item's system properties, which count for some or not at all: no item above 1 KB is
// recorded.
var systemBytes = assumed{0, 0, 230}

// keyLevel is the index units of a level of a hierarchical partition key that the policy includes. They are recorded
// for a key of one level.
var keyLevel = assumed{0, Scalar, Scalar}

// Levels returns the index units of an item with levels of a hierarchical partition key among them. These may be in no
// index.
func (m Model) Levels(units, levels int) int {
	return units - levels*(Scalar-int(keyLevel.of(m)))
}
