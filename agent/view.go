package agent

import "time"

// Summary is an agent in a list of the API.
type Summary struct {
	Name        string    `json:"name" doc:"The name of the agent"`
	Model       string    `json:"model,omitempty" doc:"The model, as provider/name"`
	Description string    `json:"description,omitempty" doc:"What the agent is for, for people and for other agents"`
	Source      string    `json:"source" enum:"configured,stored" doc:"Where its definition is from: code or file, or the API"`
	Version     int       `json:"version,omitempty" doc:"Of a stored definition, from 1"`
	By          string    `json:"by,omitempty" doc:"Who stored the version"`
	At          time.Time `json:"at,omitzero" doc:"When it was stored"`
	Default     bool      `json:"default,omitempty" doc:"In a list: threads that name no agents have this one"`
	Problem     string    `json:"problem,omitempty" doc:"Why the stored definition cannot be used. The agent fails until it is replaced or deleted"`
}

// Detail is an agent with its definition.
type Detail struct {
	Summary
	Definition *Definition `json:"definition,omitempty" doc:"As it can be stored. Left out if it cannot be read"`
	Warnings   []string    `json:"warnings,omitempty" doc:"What the definition names and the workers do not have, as far as that is known here"`
}

// Version is one version of a stored agent.
type Version struct {
	Name       string      `json:"name" doc:"As this version writes it"`
	Version    int         `json:"version" doc:"Counts the definitions, from 1"`
	Deleted    bool        `json:"deleted,omitempty" doc:"The agent was deleted with this version"`
	By         string      `json:"by,omitempty" doc:"Who stored it"`
	At         time.Time   `json:"at" doc:"When it was stored"`
	Seq        int64       `json:"seq" doc:"Of the change, among those of all agents"`
	Definition *Definition `json:"definition,omitempty" doc:"The agent as stored. Left out if this version deleted it"`
	Problem    string      `json:"problem,omitempty" doc:"Why the definition cannot be read"`
}
