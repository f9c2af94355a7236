package decode

import (
	"errors"
	"fmt"

	"binnacle/internal/telemetry"
)

// Options say how the records of a topic are read where they don't say it themselves. The fields' tags are their flags.
type Options struct {
	Format Format `name:"message-format" help:"Format of messages without a content type: json, json-flat, influx, otlp_proto, otlp_json, remote-write, remote-write-2, registry, senml or senml-cbor. Default: detected." placeholder:"FORMAT"`

	// Valid names, used where a message has none; empty: such a message is bad.
	Tenant string `name:"default-tenant" help:"Tenant of messages that name none. Default: such messages become dead letters." placeholder:"TENANT"`
	Device string `name:"default-device" help:"Device of messages that name none. Default: such messages become dead letters." placeholder:"DEVICE"`

	// Sequence names the property of a message, or the header of a record, with its number. Readings get it as a
	// metric.
	Sequence string `name:"sequence" help:"Name of the sequence number of a device's messages: a property of JSON messages beside values, or a header of the record. It is stored as a metric, from which gaps sees what was lost before Kafka. Default: none." placeholder:"NAME"`

	Lines    `kong:"embed"`
	Resource ResourceNames `kong:"embed,prefix='otlp-'"`
	Series   SeriesNames   `kong:"embed,prefix='remote-write-'"`
	Object   ObjectNames   `kong:"embed,prefix='object-'"`

	Buckets  bool    `name:"histogram-buckets" help:"Store the buckets of OTLP histograms, each as a series with the label le. Default: only count, sum, min and max."`
	Gateways bool    `name:"hub-gateways" help:"Accept readings of other devices in messages of IoT Hub devices. Default: such messages become dead letters."`
	Schemas  Schemas `kong:"-"` // a registry's; nil without a registry
	Meter    Meter   `kong:"-"` // nil without a bound of memory

	// Bound is the tenant to which the topic belongs; empty: to none. A reading without a tenant is its; one that
	// names another is bad.
	Bound string `kong:"-"`

	// Slots gives each reading the slot of its device's name, as long as the decoder remembers that name.
	Slots bool `kong:"-"`

	// Set replaces the names in messages: for records that were refused for the names in them.
	Set Names `kong:"-"`
}

// Names are a tenant and a device, both valid. An empty one is none.
type Names struct{ Tenant, Device string }

// Lines say how line protocol is read.
type Lines struct {
	DeviceTag string   `name:"lp-device-tag" help:"Line protocol: tag with the device id." default:"${lp_device_tag=device}"`
	TenantTag string   `name:"lp-tenant-tag" help:"Line protocol: tag with the tenant." default:"${lp_tenant_tag=tenant}"`
	Tags      []string `name:"lp-tags" help:"Line protocol: tags that describe the device. All others become labels." placeholder:"TAG"`
	Metric    string   `name:"lp-metric" help:"Line protocol: name of a metric, measurement_field (full) or the field alone (field)." enum:"full,field" default:"full"`
}

// ResourceNames are the attributes of an OTLP resource that say what sends. Of several the first that is there
// counts. A nil list takes the default, here as in the other Names.
//
// The defaults are what users of these systems expect. host.name and the like name the machine; service.name is what
// is left when a program says nothing else of itself. Attributes of data points are no devices: there, device names
// disks and network interfaces.
type ResourceNames struct {
	Tenant []string `name:"tenant" help:"OTLP: resource attributes with the tenant, in order of preference. Default: tenant, tenant.id." placeholder:"NAME"`
	Device []string `name:"device" help:"OTLP: resource attributes with the device id, in order of preference. Default: device, device.id, service.instance.id, host.name, host.id, service.name." placeholder:"NAME"`
	Labels []string `name:"labels" help:"OTLP: resource attributes that become labels. All others describe the device. Default: service.namespace, service.name, service.instance.id." placeholder:"NAME"`
}

// SeriesNames are the labels of a series of remote write that say what sends.
type SeriesNames struct {
	Tenant []string `name:"tenant" help:"Prometheus remote write: labels with the tenant, in order of preference. Default: tenant." placeholder:"NAME"`
	Device []string `name:"device" help:"Prometheus remote write: labels with the device id, in order of preference. Default: instance, host." placeholder:"NAME"`
}

// ObjectNames are the properties of a flat object that are no values.
type ObjectNames struct {
	Tenant []string `name:"tenant" help:"Flat JSON and Avro: properties with the tenant, in order of preference. Default: tenant, tenantId, tenant_id." placeholder:"NAME"`
	Device []string `name:"device" help:"Flat JSON and Avro: properties with the device id, in order of preference. Default: device, deviceId, device_id." placeholder:"NAME"`
	Time   []string `name:"time" help:"Flat JSON and Avro: properties with the event time, in order of preference. Default: ts, time, timestamp." placeholder:"NAME"`
	Labels []string `name:"labels" help:"Flat JSON and Avro: properties that become labels." placeholder:"NAME"`
	Tags   []string `name:"tags" help:"Flat JSON and Avro: properties that describe the device. All others become values." placeholder:"NAME"`
}

func (o *Options) setDefaults() {
	def := func(list *[]string, value ...string) {
		if *list == nil {
			*list = value
		}
	}
	def(&o.Resource.Tenant, "tenant", "tenant.id")
	def(&o.Resource.Device, "device", "device.id", "service.instance.id", "host.name", "host.id", "service.name")
	def(&o.Resource.Labels, "service.namespace", "service.name", "service.instance.id")
	def(&o.Series.Tenant, "tenant")
	def(&o.Series.Device, "instance", "host")
	def(&o.Object.Tenant, "tenant", "tenantId", "tenant_id")
	def(&o.Object.Device, "device", "deviceId", "device_id")
	def(&o.Object.Time, "ts", "time", "timestamp")
}

// Check reports what is wrong with the options, nil if nothing is.
func (o Options) Check() error {
	var errs []error
	if err := o.Format.Check(); err != nil {
		errs = append(errs, fmt.Errorf("--message-format: %w", err))
	}
	if o.Sequence != "" {
		if err := telemetry.CheckName("metric", o.Sequence); err != nil {
			errs = append(errs, fmt.Errorf("--sequence: %w", err))
		}
	}
	if o.Tenant != "" {
		if err := telemetry.CheckTenant(o.Tenant); err != nil {
			errs = append(errs, fmt.Errorf("--default-tenant: %w", err))
		}
	}
	if o.Device != "" {
		if err := telemetry.CheckDevice(o.Device); err != nil {
			errs = append(errs, fmt.Errorf("--default-device: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ForTopic adds the settings that are known for a topic to which another system writes with its default settings.
// Telegraf writes to telegraf and names the machine by the tag host; its tag device is a disk.
func (o Options) ForTopic(topic string) Options {
	if topic == "telegraf" && (o.DeviceTag == "" || o.DeviceTag == "device") {
		o.DeviceTag = "host"
	}
	return o
}
