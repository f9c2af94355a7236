package decode

import "go.opentelemetry.io/collector/pdata/pmetric"

// readJSON reads metrics in the JSON of OTLP, as the Collector does: by way of protobuf. A value that the Collector
// can't read has the whole record refused.
func (d *otlpReader) readJSON(text []byte) {
	metrics, err := new(pmetric.JSONUnmarshaler).UnmarshalMetrics(text)
	var value []byte
	if err == nil {
		value, err = new(pmetric.ProtoMarshaler).MarshalMetrics(metrics)
	}
	if err != nil {
		d.refuseRecord(faultf(Undecodable, "not OTLP metrics in JSON: %.300s", err.Error()))
		return
	}
	d.otlp(value)
}
