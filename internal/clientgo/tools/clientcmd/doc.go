// Package clientcmd is empty: a test of Prometheus imports the real one, and `go mod tidy` looks for it.
package clientcmd
