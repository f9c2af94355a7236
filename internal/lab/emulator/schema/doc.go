// Package schema has what a container says of its items, its partition key, unique keys, time to live and indexing
// policy, and takes an item apart by it. It must not know where containers and items are kept, nor how they are asked
// for.
package schema
