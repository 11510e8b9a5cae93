// Package registry combines stored agents with configured ones. Stored agents take precedence.
//
// Each lookup reads the store and the configuration, unless the caller knows that no agent was changed since: see
// [Registry.AgentAt]. So a change applies to the next model call, in every process.
package registry
