package ru

// HoursPerMonth is the length of the month that prices are given for: 8,760 hours / 12.
const HoursPerMonth = 730

// List prices of a US region with one write region (Azure Cosmos DB docs, understand-your-bill and
// autoscale-faq). They vary by region and date.
const (
	// ManualPer100 is the price of 100 RU/s of manual throughput for an hour, in dollars.
	ManualPer100 = 0.008
	// AutoscalePer100 is the price of 100 RU/s of autoscale throughput for an hour, in dollars: 1.5
	// times manual. It is billed on the highest RU/s reached in the hour, at least a tenth of the maximum.
	AutoscalePer100 = 0.012
	// StoragePerGB is the price of a GB of data and index for a month, in dollars.
	StoragePerGB = 0.25
)

// DollarsPerMonth returns the price of that many RU/s held through a month of 730 hours. With autoscale,
// rus is the billed RU/s, not the maximum.
func DollarsPerMonth(rus float64, autoscale bool) float64 {
	per := ManualPer100
	if autoscale {
		per = AutoscalePer100
	}
	return rus / 100 * per * HoursPerMonth
}

// StorageDollarsPerMonth returns the price of storing that many GB, data and index, for a month.
func StorageDollarsPerMonth(gb float64) float64 { return gb * StoragePerGB }
