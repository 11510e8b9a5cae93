package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// ErrConflict matches a [ConflictError].
var ErrConflict = errors.New("has been changed meanwhile")

// ConflictError is the error of a change to a version that is not the newest.
type ConflictError struct {
	// Kind is the kind of a document. Empty: an agent.
	Kind string
	Name string

	// After is the version to be changed, Newest the newest version. 0 = none.
	After, Newest int
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s %q %v: its newest version is %d, not %d", cmp.Or(e.Kind, "agent"), e.Name, ErrConflict, e.Newest, e.After)
}

// Unwrap makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Agents stores the definitions of agents that are created at run time. It does not interpret them:
// package agent does.
//
// Each change of an agent is a new version: versions count from 1, per agent and without gaps, and
// never change. A deletion is a version too, so an agent that is created later under the same name
// continues the numbers. Names are case-insensitive.
type Agents interface {
	// SaveAgent appends version after+1 of an agent; after is 0 for a new agent. If the newest
	// version is another one, it fails with a *ConflictError. A negative after appends to any
	// version. Of v, it uses only Name, Definition, Deleted and By. Deleting an agent that does not
	// exist is ErrNotFound.
	SaveAgent(ctx context.Context, namespace string, v AgentVersion, after int) (AgentVersion, error)

	// Agent returns the newest version of an agent, which may be a deletion, or ErrNotFound if
	// there never was one.
	Agent(ctx context.Context, namespace, name string) (AgentVersion, error)

	// Agents returns the newest versions of the agents that are not deleted, by name, after the agent with a name. The default
	// limit and the maximum are [MaxAgents].
	Agents(ctx context.Context, namespace, after string, limit int) ([]AgentVersion, error)

	// AgentVersions returns the versions of an agent before a version, newest first. Before 0
	// starts with the newest. The default limit is 20, the maximum 100.
	AgentVersions(ctx context.Context, namespace, name string, before, limit int) ([]AgentVersion, error)

	// AgentChanges returns the changes of a namespace with Seq > after, in order of Seq, at most
	// limit. 0 = 1000, which is the maximum.
	AgentChanges(ctx context.Context, namespace string, after int64, limit int) ([]AgentChange, error)
}

// AgentVersion is a version of an agent's definition.
type AgentVersion struct {
	// Name is the agent's name, as spelled in this version.
	Name    string
	Version int

	// Definition is a JSON value of at most [MaxAgentDefinition] bytes, returned byte for byte. A
	// deletion has none.
	Definition json.RawMessage
	Deleted    bool

	// By is the author of the version, At its time.
	By string
	At time.Time

	// Seq is the number of the change in the namespace, Change its type.
	Seq    int64
	Change AgentChangeType
}

// AgentChange is an entry in a namespace's log of agent changes. Seq is per namespace, from 1,
// without gaps, in commit order: a reader that has seen n never finds a late n-1.
type AgentChange struct {
	// From 1, without gaps, in order.
	Seq int64 `json:"seq"`

	// What happened to the agent.
	Type AgentChangeType `json:"type" enum:"agent.created,agent.updated,agent.deleted"`

	// The name of the agent.
	Name string `json:"name"`

	// The version that the change made.
	Version int `json:"version"`

	// Who changed it.
	By string `json:"by,omitempty"`

	// When.
	At time.Time `json:"at"`
}

// AgentChangeType is the type of a change of an agent.
type AgentChangeType string

// The types of change.
const (
	// AgentCreated means that there was no agent with this name, or that it was deleted.
	AgentCreated AgentChangeType = "agent.created"
	AgentUpdated AgentChangeType = "agent.updated"
	AgentDeleted AgentChangeType = "agent.deleted"
)

// Limits of [Agents].
const (
	// MaxAgentDefinition is the maximum size of a definition, in bytes.
	MaxAgentDefinition = 256 << 10

	// MaxAgents is the maximum number of agents that are read at once.
	MaxAgents = 100

	DefaultAgentVersions = 20
	MaxAgentVersions     = 100
)

// AgentKey returns the key by which drivers find agents: it is equal for names that differ only in
// case. ok is false if the name or the namespace cannot be stored.
func AgentKey(namespace, name string) (key string, ok bool) {
	if !Storable(namespace) || !Storable(name) {
		return "", false
	}
	return strings.Map(folded, name), true
}

// folded returns the smallest of the letters that [strings.EqualFold] treats as equal to r.
func folded(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// AgentLimit applies the default and the maximum of [Agents].Agents.
func AgentLimit(limit int) int {
	if limit <= 0 || limit > MaxAgents {
		return MaxAgents
	}
	return limit
}
