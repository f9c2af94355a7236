package gaps

import (
	"fmt"

	"binnacle/ingest/decode"
)

// Remedy returns what to do about readings that were refused for a reason.
func Remedy(reason decode.Reason) string {
	mend := ""
	switch reason {
	case decode.UnknownTenant:
		mend = "register the tenant"
	case decode.Tenant:
		mend = "let the messages name the tenant; --set tenant=NAME mends those that are there"
	case decode.OtherTenant:
		mend = "let the messages name the topic's tenant or none, or go to their tenant's topic; --set tenant=NAME mends " +
			"those that are there"
	case decode.Device:
		mend = "let the messages name the device; --set device=ID mends those that are there"
	case decode.Past:
		mend = "set the device's clock, or grant it with --backfill"
	case decode.Future:
		mend = "set the device's clock"
	case decode.Limit, decode.TooLarge, decode.Unstorable:
		mend = "raise the limit or send less at once"
	case decode.BadSchema:
		mend = "register the schema"
	case decode.Expired:
		return "the tenant's retention was over when they were published: keep longer, then binnacle replay --from-dlq " +
			"--reason expired"
	case decode.Unreadable:
		return "the batch can't be read: let the device send it again"
	default:
		return "mend what sends them: what is no reading stays refused"
	}
	return fmt.Sprintf("%s, then binnacle replay --from-dlq --reason %s", mend, reason)
}
