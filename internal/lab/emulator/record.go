package emulator

import (
	"errors"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/recording"
	"binnacle/internal/lab/emulator/refusal"
)

// record writes the exchange to the recording. What was dropped has no answer to write.
func (x *exchange) record(rep reply, err error) {
	if errors.Is(err, errDropped) {
		return
	}
	e := recording.Exchange{
		Kind: x.operation(), Method: x.request.Method, Path: x.route.alike(), Query: recording.AlikeText(x.query),
		Status: rep.status,
	}
	switch {
	case err != nil:
		f := refusal.Of(err)
		e.Status, e.Substatus = f.Status, f.Substatus
		if f.Range != "" || f.Account {
			e.RU = ru.Shown(f.Charge)
		}
	case !rep.gateway:
		e.RU = ru.Shown(rep.charge)
	}
	x.cfg.Record.Add(e)
}

// alike returns the path without what differs from run to run.
func (rt route) alike() string {
	path := ""
	if rt.database != "" {
		path = "dbs/" + recording.Alike(rt.database)
	}
	if rt.container != "" {
		path += "/colls/" + recording.Alike(rt.container)
	}
	switch {
	case rt.kind == "dbs" && rt.feed, rt.kind == "offers":
		path = rt.kind
	case rt.feed, rt.container != "" && rt.kind != "colls":
		path += "/" + rt.kind
	}
	if path == "" {
		return "/"
	}
	if rt.id != "" {
		path += "/{id}"
	}
	return path
}
