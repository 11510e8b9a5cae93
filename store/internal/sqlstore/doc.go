// Package sqlstore stores what package store describes in a database that speaks SQL. The drivers in store/sqlite and
// store/postgres open one, migrate its tables, and add what only theirs can do.
//
// A statement stands beside the method that runs it. Most have one text for both databases: its parameters are $1, $2 and so on,
// in the order of the arguments, and drivers pass Go's values on as what their columns have (see [Querier]). Where the texts
// differ, they stand beside one another.
//
// What a database cannot have in a text, it does not find: a reading call with a text that is not [store.Storable] finds nothing.
package sqlstore
