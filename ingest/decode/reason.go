package decode

import "fmt"

// Reason is why a record, or one element of it, is a dead letter, in one word. It is the value of the header
// binnacle-reason; docs/reference/payloads.md documents each.
type Reason string

// The reasons that this package finds.
const (
	Undecodable Reason = "undecodable"  // not of its format, not UTF-8, or nested too deep
	ContentType Reason = "content-type" // a content type that is not read here, or none and no look of any; no telemetry
	Empty       Reason = "empty"        // no payload, or a reading without a value
	Tenant      Reason = "tenant"       // none, or not a tenant's name
	OtherTenant Reason = "other-tenant" // another one than the topic belongs to
	Device      Reason = "device"       // none, or not a device id
	Time        Reason = "time"         // none, or not a time
	Name        Reason = "name"         // a metric, label or tag with a name that is not allowed; a metric with two values
	Value       Reason = "value"        // a value that is no float64, int64, bool or text
	Label       Reason = "label"        // labels or tags that are not an object of strings; one of them with two values
	BadSchema   Reason = "schema"       // a schema that the registry does not have, or that is not read here
)

// The reasons that a caller with limits, tenants and the record's Kafka timestamp finds. TooLarge is found here, too:
// of what unpacks to too much.
const (
	Past          Reason = "past"           // event time before the accepted past
	Future        Reason = "future"         // event time too far after the record's Kafka timestamp
	Expired       Reason = "expired"        // the tenant's retention is over for it
	UnknownTenant Reason = "unknown-tenant" // not registered, where tenants must be
	TooLarge      Reason = "too-large"      // the record's readings of one device and day fit no document
	Limit         Reason = "limit"          // over a limit of the tenant
	Unstorable    Reason = "unstorable"     // the store will not take it, and says so for good
	Unreadable    Reason = "unreadable"     // a batch of the log that is damaged, or too large once it is unpacked
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		Undecodable, ContentType, Empty, Tenant, OtherTenant, Device, Time, Name, Value, Label, BadSchema,
		Past, Future, Expired, UnknownTenant, TooLarge, Limit, Unstorable, Unreadable,
	}
}

// Whole is the Index of a Bad that refuses the record as a whole.
const Whole = -1

// Bad is what can't be taken of a record.
type Bad struct {
	Index  int // element of the array, or line of the payload, from 0; Whole for all of it
	Reason Reason
	Detail string // for people; quotes at most some 80 bytes of the payload
	More   int    // further elements, right behind it, that are refused for the reason
}

// fault is a Bad that does not know its index yet. Everything else that goes wrong is a syntax error.
type fault struct {
	reason Reason
	detail string
}

// Error returns reason and detail.
func (f *fault) Error() string { return string(f.reason) + ": " + f.detail }

func faultf(r Reason, detail string, args ...any) *fault {
	return &fault{r, fmt.Sprintf(detail, args...)}
}
