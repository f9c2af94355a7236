package tenant_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

func noErasures(string) erasure.List { return nil }

func texts(all []tenant.Annotation) (out []string) {
	for _, a := range all {
		out = append(out, a.Text)
	}
	return out
}

// Annotations of writers that write at the same time are all kept, once each, whether or not their writes are answered
// and whichever replica is read; those of another tenant stay apart.
func TestAnnotationsOfManyWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := storetest.NewDocuments(t)
		var calls atomic.Int64
		docs.Fault = func(op, _, _ string) *storetest.Fault {
			if n := calls.Add(1); op == storetest.OpReplace && n%5 == 0 { // an attempt of the client's own that was stored
				return &storetest.Fault{Applied: true, Err: store.ErrChanged}
			}
			return nil
		}
		docs.Lagging = func(string) bool { return calls.Load()%7 == 0 }
		s := tenant.NewAnnotations(docs, docs, noErasures)
		var writers sync.WaitGroup
		for n := range 8 {
			writers.Go(func() {
				for k := range 4 {
					_, err := s.Add(t.Context(), "acme", tenant.Annotation{Time: int64(100 - 10*n - k), Text: fmt.Sprint(n, k)}, 0)
					require.NoError(t, err)
				}
			})
		}
		writers.Wait()
		docs.Lagging = nil
		all, err := s.List(t.Context(), "acme")
		require.NoError(t, err)
		require.Len(t, all, 32)
		ids := map[string]bool{}
		for i, a := range all {
			ids[a.ID] = true
			require.True(t, i == 0 || all[i-1].Time <= a.Time)
		}
		require.Len(t, ids, 32)
		other, err := s.List(t.Context(), "globex")
		require.NoError(t, err)
		require.Empty(t, other)

		docs.Fault = nil
		removed, err := s.Remove(t.Context(), "acme", func(a tenant.Annotation) bool { return a.Time < 50 })
		require.NoError(t, err)
		all, err = s.List(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, 32, removed+len(all))
	})
}

// There is a bound, which those that have expired do not count towards.
func TestMostAnnotations(t *testing.T) {
	s := tenant.NewAnnotations(storetest.NewDocuments(t), storetest.NewDocuments(t), noErasures)
	add := func(at, before int64) error {
		_, err := s.Add(t.Context(), "acme", tenant.Annotation{Time: at, Text: "x"}, before)
		return err
	}
	for n := range tenant.MaxAnnotations {
		require.NoError(t, add(int64(n), 0))
	}
	require.ErrorIs(t, add(1000, 0), tenant.ErrTooManyAnnotations)
	require.NoError(t, add(1000, 1))
	all, err := s.List(t.Context(), "acme")
	require.NoError(t, err)
	require.Len(t, all, tenant.MaxAnnotations)
	require.EqualValues(t, 1, all[0].Time)
}

// An acknowledged order about all of a tenant hides what was annotated before it, and no other order does.
func TestErasureHidesAnnotations(t *testing.T) {
	now := time.UnixMilli(1_795_168_800_000)
	docs := storetest.NewDocuments(t)
	orders := erasure.NewOrders(docs, func() time.Time { return now })
	directory := control.NewDirectory(control.DirectoryConfig{Documents: docs})
	s := tenant.NewAnnotations(docs, docs, func(tenant string) erasure.List {
		v, err := directory.Refresh(context.Background())
		require.NoError(t, err)
		return v.Erasures(tenant)
	})
	for _, name := range []string{"acme", "globex"} {
		for text, made := range map[string]time.Duration{"before": -time.Hour, "meanwhile": time.Minute, "later": time.Hour} {
			_, err := s.Add(t.Context(), name, tenant.Annotation{Text: text, Time: 1, Made: now.Add(made).UnixMilli()}, 0)
			require.NoError(t, err)
		}
	}
	listed := func(tenant string) []string {
		all, err := s.List(t.Context(), tenant)
		require.NoError(t, err)
		return texts(all)
	}
	for _, o := range []erasure.Order{
		{Tenant: "acme", Device: "m1", To: erasure.EveryDay}, {Tenant: "acme", To: 20_000},
	} {
		given, err := orders.Announce(t.Context(), o)
		require.NoError(t, err)
		require.NoError(t, orders.Acknowledge(t.Context(), given.ID, nil))
	}
	given, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", To: erasure.EveryDay})
	require.NoError(t, err)
	require.Equal(t, []string{"before", "meanwhile", "later"}, listed("acme"), "before it is acknowledged")
	require.NoError(t, orders.Acknowledge(t.Context(), given.ID, []erasure.Position{{Stream: 1}}))
	require.Equal(t, []string{"later"}, listed("acme"))
	require.Len(t, listed("globex"), 3)

	others, err := s.List(t.Context(), "globex")
	require.NoError(t, err)
	require.NoError(t, s.Merge(t.Context(), "acme", "", others))
	require.Equal(t, []string{"later", "later"}, listed("acme"))
	docsOf, err := docs.List(t.Context(), tenant.KindAnnotations+".acme")
	require.NoError(t, err)
	require.Len(t, docsOf, 4, "what the order hides is not stored")
}

// What older versions have kept in control is listed, counted and erased like all else, and moved by the first change;
// from then on control is asked for nothing. What was removed does not come back with what another process moves late.
func TestAnnotationsOfControlAreMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, docs := storetest.NewDocuments(t), storetest.NewDocuments(t)
		_, err := old.Create(t.Context(), store.Document{Kind: tenant.KindAnnotations, ID: "acme", Body: []byte(
			`{"annotations":[{"id":"aa","time":5,"text":"five","tags":[]},{"id":"bb","time":7,"text":"seven","tags":[]}]}`)})
		require.NoError(t, err)
		s, late := tenant.NewAnnotations(old, docs, noErasures), tenant.NewAnnotations(old, docs, noErasures)
		listed := func(s *tenant.Annotations) []string {
			all, err := s.List(t.Context(), "acme")
			require.NoError(t, err)
			return texts(all)
		}
		require.Equal(t, []string{"five", "seven"}, listed(s))
		require.Equal(t, []string{"five", "seven"}, listed(late))
		given := storetest.NewDocuments(t)
		orders := erasure.NewOrders(given, time.Now)
		order, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", To: erasure.EveryDay})
		require.NoError(t, err)
		require.NoError(t, orders.Acknowledge(t.Context(), order.ID, []erasure.Position{{Stream: 1}}))
		known, err := control.NewDirectory(control.DirectoryConfig{Documents: given}).Refresh(t.Context())
		require.NoError(t, err)
		left, err := s.Left(t.Context(), known.Erasures("acme")[0])
		require.NoError(t, err)
		require.Equal(t, 2, left)
		_, err = s.Add(t.Context(), "acme", tenant.Annotation{Time: 6, Text: "six"}, 0)
		require.NoError(t, err)
		require.Equal(t, []string{"five", "six", "seven"}, listed(s))
		removed, err := s.Remove(t.Context(), "acme", func(a tenant.Annotation) bool { return a.ID == "aa" })
		require.NoError(t, err)
		require.Equal(t, 1, removed)
		_, err = late.Add(t.Context(), "acme", tenant.Annotation{Time: 8, Text: "eight"}, 0)
		require.NoError(t, err)
		for _, s := range []*tenant.Annotations{s, late} {
			require.Equal(t, []string{"six", "seven", "eight"}, listed(s))
		}
		asked := 0
		old.Fault = func(string, string, string) *storetest.Fault { asked++; return nil }
		for range 100 {
			_, err := s.Add(t.Context(), "acme", tenant.Annotation{Time: 9, Text: "nine"}, 0)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, asked, 1)
	})
}

// What may not be stored is named by its member.
func TestAnnotationsAreChecked(t *testing.T) {
	const noon = 1_795_168_800_000
	good := tenant.Annotation{Time: noon, Text: strings.Repeat("x", tenant.MaxAnnotationText), Tags: []string{"deploy"}}
	_, err := good.Check()
	require.NoError(t, err)
	for want, wrong := range map[string][]func(*tenant.Annotation){
		"time": {func(a *tenant.Annotation) { a.Time = noon / 1000 }, func(a *tenant.Annotation) { a.Time = 1 << 62 }},
		"timeEnd": {func(a *tenant.Annotation) { a.End = noon - 1 }, func(a *tenant.Annotation) { a.End = 1 << 62 },
			func(a *tenant.Annotation) { a.End = -1 }},
		"text": {func(a *tenant.Annotation) { a.Text += "y" }, func(a *tenant.Annotation) { a.Text = " \n" },
			func(a *tenant.Annotation) { a.Text = "\xff" }},
		"tags": {func(a *tenant.Annotation) { a.Tags = make([]string, tenant.MaxAnnotationTags+1) },
			func(a *tenant.Annotation) { a.Tags = []string{""} },
			func(a *tenant.Annotation) { a.Tags = []string{strings.Repeat("é", 26)} }},
	} {
		for _, change := range wrong {
			a := good
			change(&a)
			member, err := a.Check()
			require.Equal(t, want, member)
			require.Error(t, err)
		}
	}
}

// An error of the store is one of the caller, and nothing is tried again.
func TestAnnotationsThatCannotBeStored(t *testing.T) {
	docs := storetest.NewDocuments(t)
	s := tenant.NewAnnotations(docs, docs, noErasures)
	docs.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpCreate {
			return &storetest.Fault{Err: errors.New("away")}
		}
		return nil
	}
	_, err := s.Add(t.Context(), "acme", tenant.Annotation{Time: 1, Text: "x"}, 0)
	require.ErrorContains(t, err, "store annotations of acme: away")
}
