package decode

// Unit is what a metric is measured in, as its sender writes it: By, Cel, ms.
type Unit struct{ Tenant, Metric, Unit string }

// unit reports a metric's unit, once until the unit changes.
func (d *Decoder) unit(tenant, metric string, raw []byte) {
	if len(raw) == 0 || len(raw) > maxInternedBytes {
		return
	}
	key := unitKey{tenant, metric}
	if known, ok := d.units[key]; ok && known == string(raw) {
		return
	}
	unit, err := d.checked.get(raw)
	if err != nil {
		return
	}
	if len(d.units) >= maxUnits {
		clear(d.units)
	}
	d.units[key] = unit
	d.out.Units = append(d.out.Units, Unit{tenant, metric, unit})
}

// maxUnits bounds the remembered units.
const maxUnits = 1 << 13

type unitKey struct{ tenant, metric string }
