package control_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

func TestActionsAreListed(t *testing.T) {
	docs := storetest.NewDocuments(t)
	var said bytes.Buffer
	now := noon
	actions := control.NewActions(docs, "anna@desk", slog.New(slog.NewJSONHandler(&said, nil)),
		func() time.Time { return now })
	require.NoError(t, actions.Do(t.Context(), control.Action{Verb: "token add", Tenant: "acme",
		Detail: map[string]string{"scopes": "read"}}, func(a *control.Action) error {
		during, err := actions.List(t.Context(), time.Time{})
		require.NoError(t, err)
		require.Len(t, during, 1)
		require.Equal(t, control.OutcomeBegun, during[0].Outcome, "stored before it is done")
		a.Object = "abc"
		return nil
	}))
	now = now.Add(time.Minute)
	broken := errors.New("no such token")
	require.ErrorIs(t, actions.Do(t.Context(), control.Action{Verb: "token revoke", Object: "xyz"},
		func(*control.Action) error { return broken }), broken)

	all, err := actions.List(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, control.Action{ID: all[0].ID, At: now.Add(-time.Minute), Who: "anna@desk", Verb: "token add",
		Object: "abc", Tenant: "acme", Detail: map[string]string{"scopes": "read"}, Outcome: control.OutcomeDone}, all[0])
	require.Equal(t, control.Action{ID: all[1].ID, At: now, Who: "anna@desk", Verb: "token revoke", Object: "xyz",
		Outcome: broken.Error()}, all[1])
	require.Contains(t, said.String(), `"who":"anna@desk","verb":"token add","object":"abc","tenant":"acme"`)
	late, err := actions.List(t.Context(), now)
	require.NoError(t, err)
	require.Len(t, late, 1)
}

// What can't be stored is not done; what was done while its caller left is stored to its end.
func TestActionNeedsItsDocumentFirst(t *testing.T) {
	docs := storetest.NewDocuments(t)
	actions := control.NewActions(docs, "anna@desk", slog.New(slog.DiscardHandler), time.Now)
	down := errors.New("no connection")
	docs.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpCreate {
			return &storetest.Fault{Err: down}
		}
		return nil
	}
	require.ErrorIs(t, actions.Do(t.Context(), control.Action{Verb: "drop", Object: "chunks-2026-01"},
		func(*control.Action) error { require.Fail(t, "it is done"); return nil }), down)

	docs.Fault = nil
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, actions.Do(ctx, control.Action{Verb: "drop", Object: "chunks-2026-01"},
		func(*control.Action) error { cancel(); return nil }))
	all, err := actions.List(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, control.OutcomeDone, all[0].Outcome)
}

// An attempt that fails in every round is one action, and stored when its outcome changes.
func TestRetriedActionIsOneDocument(t *testing.T) {
	docs := storetest.NewDocuments(t)
	actions := control.NewActions(docs, "provision@pod", slog.New(slog.DiscardHandler), time.Now)
	begun, err := actions.Begin(t.Context(), control.Action{Verb: "scale", Object: "chunks-2026-11"})
	require.NoError(t, err)
	writes := 0
	docs.Fault = func(op, _, _ string) *storetest.Fault { writes++; return nil }
	for range 10 {
		require.NoError(t, begun.End(t.Context(), errors.New("423: another change is pending")))
	}
	require.Equal(t, 1, writes)
	require.NoError(t, begun.End(t.Context(), nil))
	all, err := actions.List(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, control.OutcomeDone, all[0].Outcome)
}
