// Package patch has partial updates of one item: a condition, and operations on JSON pointers, done to a parsed
// document all or none. It must not know where the document comes from, nor what becomes of it.
package patch
