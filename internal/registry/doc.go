// Package registry combines stored agents with configured ones. Stored agents take precedence.
//
// Nothing is cached: each lookup reads the store and the configuration. So a change applies to the
// next model call, in every process.
package registry
