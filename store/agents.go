package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// ErrConflict marks a [ConflictError].
var ErrConflict = errors.New("has been changed meanwhile")

// ConflictError is returned for a change of a version that is not the newest.
type ConflictError struct {
	Name string

	// After is the version that was to be changed, Newest the one that there is. 0 = none.
	After, Newest int
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("agent %q %v: its newest version is %d, not %d", e.Name, ErrConflict, e.Newest, e.After)
}

// Unwrap makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Unwrap() error { return ErrConflict }

// Agents keeps the definitions of agents that are made while the runtime runs. It does
// not look into them: package agent says what they hold.
//
// Each change of an agent is a version of it: versions count from 1, per agent and without
// gaps, and none of them is ever changed. Being deleted is a version as well, so that an
// agent of the same name later goes on counting. Names are compared without regard to case.
type Agents interface {
	// SaveAgent appends the version after+1 of an agent; after 0 is for an agent that has
	// none. If the newest version is another one, it fails with a *ConflictError. A negative
	// after appends whatever the newest is. Of v only Name, Definition, Deleted and By
	// count. To delete an agent that is not there is ErrNotFound.
	SaveAgent(ctx context.Context, namespace string, v AgentVersion, after int) (AgentVersion, error)

	// Agent returns the newest version of an agent, which may say that it is deleted; or
	// ErrNotFound if there never was one.
	Agent(ctx context.Context, namespace, name string) (AgentVersion, error)

	// Agents returns the newest versions of all agents that are not deleted, by name.
	Agents(ctx context.Context, namespace string) ([]AgentVersion, error)

	// AgentVersions returns versions of an agent before that one, the newest first.
	// Before 0 begins with the newest of all. The limit is 20 by default, at most 100.
	AgentVersions(ctx context.Context, namespace, name string, before, limit int) ([]AgentVersion, error)

	// AgentChanges returns the namespace's changes with Seq > after in order of Seq, at
	// most limit. 0 = 1000, which is the most.
	AgentChanges(ctx context.Context, namespace string, after int64, limit int) ([]AgentChange, error)
}

// AgentVersion is a version of an agent's definition.
type AgentVersion struct {
	// Name is the agent's, as this version writes it.
	Name    string
	Version int

	// Definition is a JSON value of at most [MaxAgentDefinition] bytes. It comes back to
	// the byte. One that is deleted has none.
	Definition json.RawMessage
	Deleted    bool

	// By says who has made the version. At is when.
	By string
	At time.Time

	// Seq is the place of the change in the namespace, Change what it was.
	Seq    int64
	Change AgentChangeType
}

// AgentChange is an entry in a namespace's log of changes to its agents. Seq is per
// namespace, from 1, without gaps, in the order of commits: a reader that has seen n never
// finds a late n-1.
type AgentChange struct {
	Seq     int64           `json:"seq" doc:"From 1, without gaps, in order"`
	Type    AgentChangeType `json:"type" enum:"agent.created,agent.updated,agent.deleted"`
	Name    string          `json:"name"`
	Version int             `json:"version"`
	By      string          `json:"by,omitempty"`
	At      time.Time       `json:"at"`
}

// AgentChangeType says what has happened to an agent.
type AgentChangeType string

// What can happen to an agent.
const (
	// AgentCreated: there was none of that name, or it was deleted.
	AgentCreated AgentChangeType = "agent.created"
	AgentUpdated AgentChangeType = "agent.updated"
	AgentDeleted AgentChangeType = "agent.deleted"
)

// Bounds of what [Agents] keeps and returns.
const (
	// MaxAgentDefinition is in bytes.
	MaxAgentDefinition = 256 << 10

	DefaultAgentVersions = 20
	MaxAgentVersions     = 100
)

// CheckAgent returns the version in the form in which every driver stores it, or an error,
// which is [ErrInvalid].
func CheckAgent(namespace string, v AgentVersion) (AgentVersion, error) {
	if err := checkWord("namespace", namespace); err != nil {
		return v, err
	}
	if err := checkWord("name", v.Name); err != nil {
		return v, err
	}
	switch {
	case !Storable(v.By):
		return v, invalid("by: must be UTF-8 without NUL characters")
	case v.Deleted && len(v.Definition) > 0:
		return v, invalid("definition: of what is deleted there is none")
	case v.Deleted:
		v.Definition = nil
		return v, nil
	case len(v.Definition) > MaxAgentDefinition:
		return v, invalid("definition: is %d bytes, at most %d are kept", len(v.Definition), MaxAgentDefinition)
	case !json.Valid(v.Definition):
		return v, invalid("definition: is not JSON")
	}
	v.Definition = validUTF8(v.Definition)
	return v, nil
}

// NextAgent is what [Agents].SaveAgent appends behind the newest version, which is nil if
// there is none. Seq and At are left to the driver.
func NextAgent(v AgentVersion, newest *AgentVersion, after int) (AgentVersion, error) {
	there := newest != nil && !newest.Deleted
	before := 0
	if newest != nil {
		before = newest.Version
	}
	switch {
	case v.Deleted && !there:
		return v, ErrNotFound
	case after >= 0 && after != before:
		return v, &ConflictError{Name: v.Name, After: after, Newest: before}
	case v.Deleted:
		v.Name, v.Change = newest.Name, AgentDeleted
	case there:
		v.Change = AgentUpdated
	default:
		v.Change = AgentCreated
	}
	v.Version = before + 1
	return v, nil
}

// AgentKey is what names that differ in their case only have in common: drivers find
// agents by it. ok is false if nothing can be kept under such a name, or in the namespace.
func AgentKey(namespace, name string) (key string, ok bool) {
	if !Storable(namespace) || !Storable(name) {
		return "", false
	}
	return strings.Map(folded, name), true
}

// folded is the least of the letters that [strings.EqualFold] takes for the same.
func folded(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// AgentVersionBounds makes the bounds of [Agents].AgentVersions explicit.
func AgentVersionBounds(before, limit int) (int, int) {
	if before <= 0 || before > maxVersion {
		before = maxVersion
	}
	if limit <= 0 {
		limit = DefaultAgentVersions
	}
	return before, min(limit, MaxAgentVersions)
}

// maxVersion is the greatest that a driver's column holds.
const maxVersion = 1<<31 - 1

// AgentChangeLimit makes the limit of [Agents].AgentChanges explicit.
func AgentChangeLimit(limit int) int {
	if limit <= 0 || limit > MaxLimit {
		return MaxLimit
	}
	return limit
}
