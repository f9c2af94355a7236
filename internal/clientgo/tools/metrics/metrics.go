// Package metrics replaces that of k8s.io/client-go: Prometheus' suite of PromQL imports what mentions it.
package metrics

// RegisterOpts has what would observe requests to Kubernetes.
type RegisterOpts struct{ RequestLatency, RequestResult any }

// Register does nothing: there are no requests.
func Register(RegisterOpts) {}
