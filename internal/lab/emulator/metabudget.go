package emulator

import (
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/refusal"
)

// metadata reports whether a request is one that the service's master partition answers: on databases,
// containers, offers and partition key ranges. They have a budget of their own, one for the account.
// Reading the account is not among them: gateways answer that.
func (rt route) metadata() bool {
	switch rt.kind {
	case "dbs", "colls", "offers", "pkranges":
		return true
	}
	return false
}

// serveMetadata serves a metadata request within the budget of the account: admitted while the second
// has something left, charged as its answer says and at least as a read. The rule for what overdraws
// a second is that of a physical partition.
func (x *exchange) serveMetadata(serve handler) (reply, error) {
	if ok, retry := x.master.Admit(x.now, budget.High); !ok {
		x.masterMeter.Throttle(x.now)
		return reply{}, refusal.TooMany(retry, refusal.SubMetadataBudget,
			"the rate of metadata requests is too large: the account has no request units left for them in this second")
	}
	rep, err := serve(x)
	charge := rep.charge
	if err != nil {
		err = ofAccount(err)
		charge = refusal.Of(err).Charge
	}
	charge = max(charge, x.cfg.Model.Read(0))
	x.master.Spend(budget.High, charge)
	x.masterMeter.Add(x.now, charge)
	return rep, err
}
