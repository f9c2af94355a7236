// Package rest stands in for that of k8s.io/client-go, of which Prometheus' package util/logging names two types and
// which brings 79 packages of Kubernetes. Nothing in this project calls them.
package rest

import "context"

// WarningHandlerWithContext handles warnings in answers of an API server.
type WarningHandlerWithContext interface {
	HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string)
}

// WarningLogger is a WarningHandlerWithContext that does nothing.
type WarningLogger struct{}

// HandleWarningHeaderWithContext does nothing.
func (WarningLogger) HandleWarningHeaderWithContext(context.Context, int, string, string) {}
