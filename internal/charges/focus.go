package charges

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/charges/ru"
)

// focusColumns are columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification (focus.finops.org): all that must
// be there, and the columns for showback by tenant. A tenant is a sub account.
var focusColumns = []string{
	"BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
	"BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
	"ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice",
	"EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
	"PricingQuantity", "PricingUnit",
	"ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter",
	"SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType",
}

// focusCharge is one row: a part of a tenant's bill.
type focusCharge struct {
	what, sku    string
	dollars      float64
	unitPrice    float64
	pricingUnit  string
	consumed     float64
	consumedUnit string
}

// The units of FOCUS rows, in the words of its format of units. Throughput is priced as manual throughput is; an hour
// of autoscale counts as 1.5.
const (
	perRUHour = ru.ManualPer100 / 100

	unitThroughput = "RU per Second-Hours"
	unitRequests   = "RUs"
	unitStorage    = "GB-Months"
)

// WriteFOCUS writes a bill as CSV: four rows for each tenant and for requests without a tenant, but none that are zero.
func WriteFOCUS(w io.Writer, b *Bill, m Month) error {
	out := csv.NewWriter(w)
	if err := out.Write(focusColumns); err != nil {
		return fmt.Errorf("write FOCUS: %w", err)
	}
	for _, t := range append(append([]TenantBill{}, b.Tenants...), b.Nobody) {
		for _, c := range t.focusCharges() {
			if c.dollars <= 0 {
				continue
			}
			if err := out.Write(c.record(t.Tenant, m)); err != nil {
				return fmt.Errorf("write FOCUS: %w", err)
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write FOCUS: %w", err)
	}
	return nil
}

func (t TenantBill) focusCharges() []focusCharge {
	d := t.Dollars
	return []focusCharge{
		{"Throughput that was used", "throughput-used", d.Usage, perRUHour, unitThroughput, t.RUs, unitRequests},
		{"Idle throughput of containers that the tenant uses", "throughput-idle", d.Idle, perRUHour, unitThroughput,
			d.Idle / perRUHour, unitThroughput},
		{"Share of containers that serve all tenants", "throughput-floors", d.Floors, perRUHour, unitThroughput,
			d.Floors / perRUHour, unitThroughput},
		{"Data and index", "storage", d.Storage, ru.StoragePerGB, unitStorage, d.Storage / ru.StoragePerGB, unitStorage},
	}
}

// record returns a row's fields in the order of focusColumns.
func (c focusCharge) record(tenant string, m Month) []string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	cost := number(c.dollars)
	if tenant == "" {
		tenant = "nobody"
	}
	fields := map[string]string{
		"BilledCost": cost, "ContractedCost": cost, "EffectiveCost": cost, "ListCost": cost,
		"ListUnitPrice": number(c.unitPrice), "ContractedUnitPrice": number(c.unitPrice),
		"PricingQuantity": number(c.dollars / c.unitPrice), "PricingUnit": c.pricingUnit, "PricingCategory": "Standard",
		"ConsumedQuantity": number(c.consumed), "ConsumedUnit": c.consumedUnit,
		"BillingAccountId": "binnacle", "BillingAccountName": "binnacle", "BillingAccountType": "Azure Cosmos DB account",
		"BillingCurrency": "USD", "BillingPeriodStart": at(m.Begin()), "BillingPeriodEnd": at(m.End()),
		"ChargePeriodStart": at(m.Begin()), "ChargePeriodEnd": at(m.End()),
		"ChargeCategory": "Usage", "ChargeDescription": c.what, "ChargeFrequency": "Usage-Based",
		"InvoiceIssuerName": "Microsoft", "ProviderName": "Microsoft", "PublisherName": "Microsoft",
		"ServiceCategory": "Databases", "ServiceName": "Azure Cosmos DB", "ServiceSubcategory": "NoSQL Databases",
		"SkuId": c.sku, "SkuMeter": c.what, "SkuPriceId": c.sku + "-list",
		"SubAccountId": tenant, "SubAccountName": tenant, "SubAccountType": "tenant",
	}
	out := make([]string, len(focusColumns))
	for i, name := range focusColumns {
		out[i] = strings.TrimSpace(fields[name])
	}
	return out
}
