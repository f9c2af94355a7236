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
	// ServerlessPerMillion is the price of a million request units of a serverless account, in dollars.
	ServerlessPerMillion = 0.25
	// StoragePerGB is the price of a GB of data and index for a month, in dollars.
	StoragePerGB = 0.25
	// LeastGB is the storage that a container is billed for at the least, in every kind of account. The pages of prices
	// leave it out; Microsoft's support states it (MicrosoftDocs/azure-docs, issue 118432).
	LeastGB = 1
)

// What accounts get for nothing, or for less (Azure Cosmos DB docs, free-tier and reserved-capacity).
const (
	// FreeRUs is the throughput that an account of the free tier has for nothing, in RU/s of all its regions together. A
	// subscription has one such account.
	FreeRUs = 1000
	// FreeGB is the storage that an account of the free tier has for nothing, of all its regions together.
	FreeGB = 25
	// ReservedYear is the part of the price that a reservation of throughput for a year saves, below 1,000,000 RU/s.
	ReservedYear = 0.20
	// ReservedThreeYears is the part that one for three years saves.
	ReservedThreeYears = 0.30
)

// Priced is what an account pays for: a container, or the throughput that the containers of a database share.
type Priced struct {
	// RUs is the throughput of the container, with Autoscale the maximum; 0 for none.
	RUs       float64
	Autoscale bool
	Container bool    // its storage is billed, of LeastGB at least
	GB        float64 // data and index of a container
}

// Bill is dollars for a month of 730 hours. The two differ by autoscale, which is billed by use, at least a tenth of
// its maximum.
type Bill struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// Price returns what is paid for all that is named, throughput and storage, by list prices.
func Price(all ...Priced) (b Bill) {
	for _, p := range all {
		per, least := ManualPer100, 1.0
		if p.Autoscale {
			per, least = AutoscalePer100, 0.1
		}
		throughput, storage := p.RUs/100*per*HoursPerMonth, 0.0
		if p.Container {
			storage = Storage(p.GB)
		}
		b = b.Plus(Bill{throughput*least + storage, throughput + storage})
	}
	return b
}

// Consumed returns the price of request units of a serverless account.
func Consumed(rus float64) float64 { return rus / 1e6 * ServerlessPerMillion }

// Storage returns the price of a container's data and index for a month.
func Storage(gb float64) float64 { return max(LeastGB, gb) * StoragePerGB }

// Plus returns the sum of two bills.
func (b Bill) Plus(o Bill) Bill { return Bill{b.Least + o.Least, b.Most + o.Most} }
