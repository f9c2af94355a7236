package tenant_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

var oslo = tenant.RetentionTag{Name: "site", Value: "oslo"}

// setTagged sets a retention with the devices that are in Oslo.
func (r *retained) setTagged(text string, inOslo ...string) {
	change, err := tenant.RetentionChange(text, r.clock, tenant.Tagged{oslo: inOslo})
	require.NoError(r.t, err)
	require.NoError(r.t, r.all.Set(r.t.Context(), "acme", change))
}

// find stores which devices are in Oslo, as provision does, and reports whether that differs from what was stored.
func (r *retained) find(inOslo ...string) bool {
	change, differs := r.tenant().TaggedChange(tenant.Tagged{oslo: inOslo}, r.clock)
	if differs {
		require.NoError(r.t, r.all.Set(r.t.Context(), "acme", change))
	}
	return differs
}

// confirm has what was found of devices confirmed, as an operator does.
func (r *retained) confirm(devices []string, inOslo ...string) {
	change, differs := r.tenant().ConfirmTagged(tenant.Tagged{oslo: inOslo}, r.clock, devices)
	require.True(r.t, differs)
	require.NoError(r.t, r.all.Set(r.t.Context(), "acme", change))
}

func TestRetentionByTag(t *testing.T) {
	r := newRetained(t, 0)
	r.setTagged("{site=oslo}=10y,a*=30d,default=7d", "a1", "b1")
	acme := r.tenant()
	require.Equal(t, "{site=oslo}=3650d,a*=30d,default=7d", acme.RetentionText())
	require.Equal(t, []tenant.RetentionTag{oslo}, acme.RetentionTags())
	require.Equal(t, []bool{true, false, true},
		[]bool{acme.HasTagged("a1"), acme.HasTagged("a2"), acme.HasTagged("")})
	r.now = noon.Add(lead)
	acme = r.tenant()
	tomorrow := telemetry.DayOf(noon.UnixMilli()) + 2
	for device, keep := range map[string]time.Duration{"a1": 3650 * dayLong, "a2": 30 * dayLong, "b1": 3650 * dayLong,
		"b2": 7 * dayLong} {
		require.Equal(t, keep, acme.RetentionOf(device, tomorrow), device)
	}
	require.Equal(t, "20161122", r.first("a1"), "a device that has the tag when the class is set loses nothing")
	require.Equal(t, "20261113", r.first("b2"))

	r.now = noon.Add(dayLong)
	require.False(t, r.find("b1", "a1"), "nothing has changed")
	require.True(t, r.find("b1", "b2"))
	require.Equal(t, "20261114", r.first("b2"), "what is hidden stays hidden")
	r.confirm([]string{"a1"}, "b1", "b2")
	r.now = r.now.Add(lead)
	require.Equal(t, "20161123", r.first("b1"))
	r.now = noon.Add(40 * dayLong)
	require.Equal(t, "20261122", r.first("b2"), "days up to its change went after 7 days")
	require.Equal(t, "20261130", r.first("a1"), "it has lost the tag")
	require.Contains(t, r.tenant().ExplainRetention("b2", r.now.UnixMilli())[0], "{site=oslo}=3650d")
	require.Equal(t, "{site=oslo}=3650d,a*=30d,default=7d", r.tenant().RetentionText())

	// A class that is set again finds the devices that have the tag then.
	require.NoError(t, r.set("default=forever"))
	r.now = noon.Add(41 * dayLong)
	r.setTagged("{site=oslo}=forever,default=5d", "a1", "b1")
	r.now = noon.Add(60 * dayLong)
	require.Equal(t, "20261220", r.first("a1"), "of the 30 days that it had, not the 5 of others")
	require.Equal(t, "20270114", r.first("b2"))
}

// A device that had the tag of a class when that was set is kept with it on all days since then, whatever is set later.
func TestRetentionByTagKeepsItsBegin(t *testing.T) {
	r := newRetained(t, 0)
	r.setTagged("{site=oslo}=10y,default=7d", "a1")
	for range 3 {
		r.now = r.now.Add(dayLong)
		require.NoError(t, r.set(fmt.Sprintf("default=%dd", 4000+r.now.YearDay())))
		require.Equal(t, 3650*dayLong, r.tenant().RetentionOf("a1", telemetry.DayOf(noon.UnixMilli())), r.now)
	}
}

// Earlier releases dropped the policy before one by tag. A device that came to its class with that policy is kept with
// it on earlier days, not with the class of the others.
func TestPolicyBeforeTheFirstByTagIsGone(t *testing.T) {
	r := newRetained(t, 0)
	r.setTagged("{site=oslo}=10y,default=7d", "a1")
	r.now = r.now.Add(lead + dayLong)
	r.find("a1", "b1")
	require.NoError(t, r.set("default=20y"))
	d, found, err := r.docs.Read(t.Context(), tenant.Kind, "acme")
	require.True(t, found)
	require.NoError(t, err)
	var body map[string]any
	require.NoError(t, json.Unmarshal(d.Body, &body))
	policies := body["retention"].([]any)
	require.Len(t, policies, 3)
	body["retention"] = policies[1:]
	changed := store.NewDocument(tenant.Kind, "acme", body)
	changed.ETag = d.ETag
	_, err = r.docs.Replace(t.Context(), changed)
	require.NoError(t, err)
	r.now = noon.Add(40 * dayLong)
	require.Equal(t, "20170101", r.first("a1"))
	require.Equal(t, "20261122", r.first("b1"), "it came a day later")
	require.Equal(t, "20261122", r.first("c1"))
}

// What producers send lengthens a retention, and never shortens it: that takes an operator, and two hours in which the
// tag takes it back (rules X5 and X6).
func TestTagsAloneOnlyLengthen(t *testing.T) {
	r := newRetained(t, 0)
	bergen := tenant.RetentionTag{Name: "site", Value: "bergen"}
	const text = "{site=oslo}=10y,{site=bergen}=5d,default=7d"
	found := func(inOslo, inBergen []string) tenant.Tagged { return tenant.Tagged{oslo: inOslo, bergen: inBergen} }
	change, err := tenant.RetentionChange(text, r.clock, found([]string{"a"}, nil))
	require.NoError(t, err)
	require.NoError(t, r.all.Set(t.Context(), "acme", change))
	r.now = noon.Add(lead)
	tomorrow := telemetry.DayOf(r.now.UnixMilli()) + 2
	kept := func() (days [3]int) {
		for i, device := range []string{"a", "b", "c"} {
			days[i] = int(r.tenant().RetentionOf(device, tomorrow) / dayLong)
		}
		return days
	}
	require.Equal(t, [3]int{3650, 7, 7}, kept())
	find := func(tags tenant.Tagged) bool {
		change, differs := r.tenant().TaggedChange(tags, r.clock)
		if differs {
			require.NoError(t, r.all.Set(t.Context(), "acme", change))
		}
		return differs
	}
	require.False(t, find(found(nil, nil)), "a tag with a typing error")
	require.False(t, find(found(nil, []string{"a", "b"})), "a tag of a class that keeps for less")
	require.Equal(t, [3]int{3650, 7, 7}, kept())
	left := r.tenant().Retagged(found(nil, []string{"a", "b"}))
	require.Equal(t, []string{"a", "b"}, []string{left[0].Device, left[1].Device})
	require.True(t, left[0].Shortens() && left[1].Shortens())
	require.False(t, find(found([]string{"a"}, nil)), "the right tag again: nothing has changed")
	require.Equal(t, "20161122", r.first("a"))
	require.True(t, find(found([]string{"a", "b"}, nil)))
	r.now = r.now.Add(time.Minute)
	require.Equal(t, [3]int{3650, 3650, 7}, kept())
	lengthened := r.tenant().Retagged(found([]string{"a", "b", "c"}, nil))
	require.Len(t, lengthened, 1)
	require.False(t, lengthened[0].Shortens(), "it needs nobody's confirmation")

	// A person confirms it. For two hours nothing is hidden, and the tag takes it back.
	confirm := func() {
		change, differs := r.tenant().ConfirmTagged(found(nil, []string{"a"}), r.clock, []string{"a"})
		require.True(t, differs)
		require.NoError(t, r.all.Set(t.Context(), "acme", change))
	}
	confirm()
	r.now = r.now.Add(lead - 10*time.Minute)
	require.Equal(t, "20161122", r.first("a"))
	require.Equal(t, [3]int{3650, 3650, 7}, kept())
	require.Contains(t, r.tenant().ExplainRetention("a", r.now.UnixMilli()),
		"From 2026-11-20T16:01:00Z on its class is {site=bergen}=5d, as an operator has confirmed. Until "+
			"2026-11-20T15:56:00Z its former tags undo that.")
	require.True(t, find(found([]string{"a", "b"}, nil)))
	r.now = r.now.Add(2 * lead)
	require.Equal(t, []string{"20161122", "3650"}, []string{r.first("a"), fmt.Sprint(kept()[0])},
		"as if it had never been")
	confirm()
	r.now = r.now.Add(lead)
	require.Equal(t, "20261115", r.first("a"))
	require.Equal(t, [3]int{5, 3650, 7}, kept())

	// A retention that is set while a tag is another one than is stored takes nobody out of a class either.
	change, err = tenant.RetentionChange("{site=oslo}=20y,{site=bergen}=5d,default=7d", r.clock,
		found(nil, []string{"a", "b"}))
	require.NoError(t, err)
	require.NoError(t, r.all.Set(t.Context(), "acme", change))
	r.now = r.now.Add(2 * lead)
	require.Equal(t, [3]int{5, 7300, 7}, kept())
}

// A tag that keeps a device for longer than a class that is still to come, and for less than its class of now, counts
// when that class has come.
func TestTagBesideAConfirmedOne(t *testing.T) {
	r := newRetained(t, 0)
	bergen := tenant.RetentionTag{Name: "site", Value: "bergen"}
	found := func(inOslo, inBergen []string) tenant.Tagged { return tenant.Tagged{oslo: inOslo, bergen: inBergen} }
	change, err := tenant.RetentionChange("{site=oslo}=1d,{site=bergen}=5d,default=7d", r.clock, found(nil, nil))
	require.NoError(t, err)
	require.NoError(t, r.all.Set(t.Context(), "acme", change))
	r.now = noon.Add(2 * lead)
	change, differs := r.tenant().ConfirmTagged(found([]string{"a"}, nil), r.clock, []string{"a"})
	require.True(t, differs)
	require.NoError(t, r.all.Set(t.Context(), "acme", change))
	for range 2 {
		first := r.first("a")
		if change, differs = r.tenant().TaggedChange(found(nil, []string{"a"}), r.clock); differs {
			require.NoError(t, r.all.Set(t.Context(), "acme", change))
		}
		require.Equal(t, first, r.first("a"))
		r.now = r.now.Add(lead + time.Minute)
	}
	tomorrow := telemetry.DayOf(r.now.UnixMilli()) + 2
	require.Equal(t, 5*dayLong, r.tenant().RetentionOf("a", tomorrow))
}

// A retention by tag that the next one replaces in the instant in which it comes into force hides nothing of devices
// with the tag that it would have kept.
func TestRetentionByTagThatEndsAsItBegins(t *testing.T) {
	r := newRetained(t, 30*dayLong)
	r.setTagged("{site=oslo}=9d,default=1d", "a")
	r.now = noon.Add(lead - time.Second) // too late to take it back
	require.NoError(t, r.set("20d"))
	r.now = noon.Add(lead)
	today := telemetry.DayOf(r.now.UnixMilli())
	require.Equal(t, (today - 9).String(), r.first("a"))
	require.Equal(t, (today - 1).String(), r.first("b"))
}

func TestRetentionByTagIsRefused(t *testing.T) {
	r := newRetained(t, 0)
	for _, text := range []string{"{site}=1d", "{site=}=1d", "{=oslo}=1d", "{site=oslo=1d", "{site=o*}=1d", "{}=1d"} {
		_, err := tenant.RetentionChange(text, time.Now)
		require.ErrorContains(t, err, "{TAG=VALUE}", text)
	}
	require.ErrorContains(t, r.set("{site=oslo}=1d"), "needs the devices")
	many := make([]string, 5001)
	for i := range many {
		many[i] = fmt.Sprint("device-", i)
	}
	change, err := tenant.RetentionChange("{site=oslo}=1d", time.Now, tenant.Tagged{oslo: many})
	require.NoError(t, err)
	require.ErrorIs(t, r.all.Set(t.Context(), "acme", change), tenant.ErrTagged)
	r.setTagged("{site=oslo}=9d,default=1d", many[:10]...)
	change, differs := r.tenant().TaggedChange(tenant.Tagged{oslo: many}, r.clock)
	require.True(t, differs)
	require.ErrorIs(t, r.all.Set(t.Context(), "acme", change), tenant.ErrTagged)
}

// A change that can no more be taken back, since it comes into force within minutes, and another one behind it: neither
// counts before its time.
func TestTwoChangesOfRetentionAreToCome(t *testing.T) {
	r := newRetained(t, 30*dayLong)
	today := telemetry.DayOf(noon.UnixMilli())
	require.NoError(t, r.set("10d"))
	r.now = noon.Add(lead - 4*time.Minute)
	require.NoError(t, r.set("5d"))
	for _, c := range []struct {
		after time.Duration
		days  telemetry.Day
	}{{lead - 4*time.Minute, 30}, {lead - time.Minute, 30}, {lead, 10}, {2*lead - time.Minute, 10}, {2 * lead, 5}} {
		r.now = noon.Add(c.after)
		acme := r.tenant()
		require.Equal(t, today-c.days, acme.FirstVisible("a", r.now.UnixMilli()), "%s after noon", c.after)
		require.Equal(t, time.Duration(c.days)*dayLong, acme.Retention, "%s after noon", c.after)
	}
}
