// Package metrics replaces the package of k8s.io/client-go of that name. Prometheus' suite of PromQL imports a package
// that mentions it; nothing calls it.
package metrics

// RegisterOpts has what would observe requests to Kubernetes.
type RegisterOpts struct{ RequestLatency, RequestResult any }

// Register does nothing: there are no requests.
func Register(RegisterOpts) {}
