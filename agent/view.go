package agent

import "time"

// Summary is an agent in a list of the API.
type Summary struct {
	// The name of the agent.
	Name string `json:"name"`

	// The model, as provider/name.
	Model string `json:"model,omitempty"`

	// What the agent is for, for people and for other agents.
	Description string `json:"description,omitempty"`

	// Where its definition is from: code or file, or the API.
	Source string `json:"source" enum:"configured,stored"`

	// Of a stored definition, from 1.
	Version int `json:"version,omitempty"`

	// Who stored the version.
	By string `json:"by,omitempty"`

	// When it was stored.
	At time.Time `json:"at,omitzero"`

	// In a list: threads that name no agents have this one.
	Default bool `json:"default,omitempty"`

	// Why the stored definition cannot be used. The agent fails until it is replaced or deleted.
	Problem string `json:"problem,omitempty"`
}

// Detail is an agent with its definition.
type Detail struct {
	Summary

	// As it can be stored. Left out if it cannot be read.
	Definition *Definition `json:"definition,omitempty"`

	// What the definition names and the workers do not have, as far as that is known here.
	Warnings []string `json:"warnings,omitempty"`
}

// Version is one version of a stored agent.
type Version struct {
	// As this version writes it.
	Name string `json:"name"`

	// Counts the definitions, from 1.
	Version int `json:"version"`

	// The agent was deleted with this version.
	Deleted bool `json:"deleted,omitempty"`

	// Who stored it.
	By string `json:"by,omitempty"`

	// When it was stored.
	At time.Time `json:"at"`

	// Of the change, among those of all agents.
	Seq int64 `json:"seq"`

	// The agent as stored. Left out if this version deleted it.
	Definition *Definition `json:"definition,omitempty"`

	// Why the definition cannot be read.
	Problem string `json:"problem,omitempty"`
}
