// Package registry puts the agents that are kept in the store before those of the
// configuration.
//
// Nothing is remembered between two questions: an agent is as it stands in the store, or in
// the configuration, when it is asked for. So a change applies to the next model call, in
// every process.
package registry
