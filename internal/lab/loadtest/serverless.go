package loadtest

import (
	"math"

	"binnacle/internal/charges/ru"
)

// Serverless says at how many devices a serverless container reaches what it serves, on average and in the busiest
// minute, and from how many on the least manual throughput costs less.
type Serverless struct {
	Mean    float64 `json:"devices_on_average"`
	Busiest float64 `json:"devices_in_the_busiest_minute"`
	Grow    float64 `json:"devices_when_to_grow"`
}

// newServerless returns the figures of devices that take RU/s each; busiest is the busiest minute over the mean.
func newServerless(each, busiest float64) Serverless {
	serves := ru.ServerlessRUs(1)
	return Serverless{math.Floor(serves / each), math.Floor(serves / (each * busiest)), math.Ceil(growRUs() / each)}
}

// growRUs returns the mean RU/s from which on the least manual throughput costs less than a serverless container.
func growRUs() float64 {
	return ru.Price(ru.Priced{RUs: ru.Floor(0, 0, false)}).Most / ru.Consumed(ru.HoursPerMonth*3600)
}
