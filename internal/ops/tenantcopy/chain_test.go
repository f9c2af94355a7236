package tenantcopy_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/tenant"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// Accounts are copied in a chain, or in two ways to a third. An order of one account takes from each copy what came
// there from that account, by the way by which the order came: readings, names and times in lists, and annotations.
// Nothing else goes, and nothing of that stays (rule T4).
func TestOrdersOfChainsOfCopies(t *testing.T) {
	for name, c := range map[string]struct{ steps, want string }{
		"a chain":                                {"A>B B>C erase-A A>B B>C", "BC"},
		"a chain that is copied after the order": {"A>B erase-A A>B B>C", "BC"},
		"an order about what was copied before and what is own": {"A>B B>C erase-B B>C", "C"},
		"two ways, the long one first":                          {"A>C A>B B>C erase-A A>B B>C A>C", "BC"},
		"two ways, the short one first":                         {"A>C A>B B>C erase-A A>C A>B B>C", "BC"},
		"two ways, and one was erased":                          {"A>C A>B B>C erase-B B>C", "AC"},
		"two ways, and one of them does not know the order":     {"A>B erase-A A>C B>C", "ABC"},
		"two ways, and one of them gets to know the order":      {"A>B erase-A A>C B>C A>B B>C", "BC"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, accounts := &pair{t: t}, map[string]*querytest.World{}
				for i, name := range []string{"A", "B", "C"} {
					w := querytest.New(t, noon)
					w.Store.Now, accounts[name] = p.now, w
					p.chunk(w, reading{1, 1, 18 + i, 1 + i, 1})
					named, at := storetest.Entry("m1", nil, name), noon.AddDate(0, 0, i-2).UnixMilli()
					named.First, named.Last = at, at
					w.Catalog.AddPage("acme", named)
					_, err := p.annotations(w).Add(t.Context(), "acme", tenant.Annotation{Time: 1, Text: name}, 0)
					require.NoError(t, err)
				}
				for _, step := range strings.Fields(c.steps) {
					p.wait(time.Hour)
					if of, isErased := strings.CutPrefix(step, "erase-"); isErased {
						p.eraseAll(accounts[of])
						continue
					}
					p.from, p.to = accounts[step[:1]], accounts[step[2:]]
					p.copy(p.config())
				}
				w := accounts["C"]
				var readings, notes string
				for _, r := range p.rows(w, "m1") {
					if of := "ABC"[time.UnixMilli(r.Time).UTC().Day()-18:][:1]; !strings.Contains(readings, of) {
						readings += of
					}
				}
				v, err := p.side(w).Directory.Refresh(t.Context())
				require.NoError(t, err)
				list, err := tenant.NewAnnotations(w.Documents, w.Documents, v.Erasures).List(t.Context(), "acme")
				require.NoError(t, err)
				for _, a := range list {
					notes += a.Text
				}
				is, _ := w.Catalog.Entry("acme", "m1")
				names := slices.DeleteFunc(is.MetricNames(), func(m string) bool { return len(m) > 1 || m == "x" })
				require.Equal(t, []string{c.want, c.want, c.want}, []string{readings, strings.Join(names, ""), sorted(notes)},
					"readings, lists and annotations")
				require.EqualValues(t, 18+strings.Index("ABC", c.want[:1]), time.UnixMilli(is.First).UTC().Day(), "since")
			})
		})
	}
}

func sorted(s string) string {
	all := strings.Split(s, "")
	slices.Sort(all)
	return strings.Join(all, "")
}

// eraseAll gives an order about all that an account has of the tenant.
func (p *pair) eraseAll(w *querytest.World) {
	orders := p.side(w).Orders
	o, err := orders.Announce(p.t.Context(), erasure.Order{Tenant: "acme", To: erasure.EveryDay, By: "test"})
	require.NoError(p.t, err)
	streams, err := stream.NewStreams(w.Documents).All(p.t.Context())
	require.NoError(p.t, err)
	var positions []erasure.Position
	for _, s := range streams {
		positions = append(positions, erasure.Position{Stream: s.Number, Partition: erasure.EveryPartition, Through: 1 << 50})
	}
	require.NoError(p.t, orders.Settle(p.t.Context(), w.Catalog, o.Acknowledged(positions)))
}
