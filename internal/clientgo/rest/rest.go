// Package rest replaces the package of k8s.io/client-go, by a line of go.mod. Prometheus' engine mentions the two types
// below, and nothing calls them; the real package links 2.5 MB. Empty folders of this module let `go mod tidy` work.
package rest

import "context"

// WarningHandlerWithContext handles a warning in an answer of Kubernetes.
type WarningHandlerWithContext interface {
	HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string)
}

// WarningLogger drops warnings.
type WarningLogger struct{}

func (WarningLogger) HandleWarningHeaderWithContext(context.Context, int, string, string) {}
