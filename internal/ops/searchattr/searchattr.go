// Package searchattr builds the Temporal search attributes of threads.
package searchattr

import (
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/threadmill/threadmill/signals"
)

var (
	keyNamespace = temporal.NewSearchAttributeKeyKeyword(signals.AttributeNamespace)
	keyAgents    = temporal.NewSearchAttributeKeyKeywordList(signals.AttributeAgents)
	keyStatus    = temporal.NewSearchAttributeKeyKeyword(signals.AttributeStatus)
)

// Types returns the search attributes that a Temporal namespace needs.
func Types() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		signals.AttributeNamespace: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		signals.AttributeAgents:    enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		signals.AttributeStatus:    enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}
}

// Open sets the search attributes of an open thread that does not wait for approval.
func Open(namespace string, agents []string) []temporal.SearchAttributeUpdate {
	return []temporal.SearchAttributeUpdate{
		keyNamespace.ValueSet(namespace),
		keyAgents.ValueSet(append([]string{}, agents...)),
		keyStatus.ValueSet(signals.StatusOpen),
	}
}

// Waiting sets whether an open thread waits for approval.
func Waiting(waiting bool) temporal.SearchAttributeUpdate {
	if waiting {
		return keyStatus.ValueSet(signals.StatusWaitingApproval)
	}
	return keyStatus.ValueSet(signals.StatusOpen)
}

// Closed marks a thread as closed.
func Closed() temporal.SearchAttributeUpdate { return keyStatus.ValueSet(signals.StatusClosed) }
