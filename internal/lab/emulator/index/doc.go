// Package index has the indexing policy of a container: which paths it covers, how many terms an item has under it,
// which orders and conditions of a query it serves. It must not know how items are stored or found.
package index
