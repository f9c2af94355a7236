// Package heatlog reads and writes the load, through the contract of the store: grids of RU, bytes and 429s by key and
// time, weights of devices by day, what is expected of the next hours. Package heat has the forms.
//
// Whatever fails here harms neither ingest nor queries: heat that can't be written is lost, and counted.
package heatlog
