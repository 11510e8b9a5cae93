// Package knowledge has the pure decisions about documents and entities: how a document is split into chunks, how
// ranked lists become one, and whether an entity is one that is known. It does no I/O and has no clock.
package knowledge
