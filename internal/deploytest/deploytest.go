// Package deploytest has the tests of what stands in deploy and has no code of its own: alerts and their runbooks,
// dashboards, the compose file and the chart. They hold that what is named there exists: metrics, flags, pages.
package deploytest
