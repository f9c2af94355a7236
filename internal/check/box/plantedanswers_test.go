package box_test

// plantedAnswers are faults of pages, of lists, of the gaps of devices, and of what answers say that they cost.
var plantedAnswers = []planted{
	{name: "a page begins with the last row before it", file: "query/merge/rows.go",
		old: "return order*int(m.Order) > 0", new: "return order*int(m.Order) >= 0"},
	{name: "a page begins at the next instant", file: "query/httpapi/readings.go",
		old: "q.Range.From = c.Time\n", new: "q.Range.From = c.Time + 1\n"},
	{name: "a list ends with its page", file: "query/listing.go",
		old: "min(s.Limit, math.MaxInt32)+1)", new: "s.Limit)"},
	{name: "a device of a head counts twice", file: "query/catalog.go",
		old: "sets[0].Without(k.updates)\n", new: "\n"},
	{name: "a tag that changes is no news", file: "ingest/catalogupdates/seen.go",
		old: "if found && s.tags[i] == t {", new: "if found {"},
	{name: "gaps do not know when a device was there first", file: "query/gaps.go",
		old: "if len(all) > 0 && all[0].First", new: "if len(all) > 1 && all[0].First"},
	{name: "a gap begins with the range", file: "query/gaps.go",
		old: "c.Before, found, err = q.lastBefore(ctx, r)", new: "_, found, err = q.lastBefore(ctx, r)"},
	{name: "what was read twice costs twice", file: "query/gaps.go",
		old: "res.Stats.RequestUnits = spent.Read().RUs //", new: "//"},
	{name: "what a catalog costs is forgotten", file: "query/catalog.go",
		old: "held, err := q.devices.Get(ctx, tenant, since)",
		new: "held, err := q.devices.Get(context.Background(), tenant, since)"},
}
