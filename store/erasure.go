package store

import (
	"context"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/event"
)

// ErrErased means that the thread was erased: nothing of it exists, and nothing is stored for it again. It is an ErrNotFound
// too. A retry does not help.
var ErrErased = fmt.Errorf("the thread was erased: %w", ErrNotFound)

// Erasures deletes threads for good, and what a person left in threads that stay. Of an erased thread, the store keeps the
// key, the time and the id of its parent thread.
type Erasures interface {
	// MarkErased deletes the row of a thread and reserves its key: what is stored for the thread from then on, by Append,
	// QueueExtraction or BeginKnowledge, fails with ErrErased. The thread need not exist, and may be marked before.
	MarkErased(ctx context.Context, key Key) error

	// EraseThread marks a thread as erased and deletes its records, its tool logs, its queued extractions, its mentions and
	// the revisions of documents that it asked for. It may be repeated, and must be if it fails.
	//
	// A document of which others asked for a revision stays with that one.
	//
	// An entity that nothing else mentions is deleted. One that other threads mention keeps no description and no relation, since
	// they may be of this thread, and has a name that another thread uses. A merge of a deleted entity is forgotten.
	EraseThread(ctx context.Context, key Key) error

	// ThreadContents counts what EraseThread would delete.
	ThreadContents(ctx context.Context, key Key) (ThreadContents, error)

	// ThreadDocuments returns the ids of the knowledge documents that have a revision, a title or metadata of a thread, in order.
	ThreadDocuments(ctx context.Context, key Key) ([]string, error)

	// OldToolLogs counts the logs of tool calls of a namespace that ended before a time, and PruneToolLogs deletes some of
	// them, at most [EraseBatch], and returns how many. Calls that wait for people or continue elsewhere have not ended.
	OldToolLogs(ctx context.Context, namespace string, before time.Time) (int, error)
	PruneToolLogs(ctx context.Context, namespace string, before time.Time) (int, error)

	// ThreadMentions returns the mentions of a thread in the order of their source types, source ids and entities, after one of
	// them, and ToolLogPage its tool logs in the order of their calls' ids, after one of these. Limit is at most [MaxLimit].
	ThreadMentions(ctx context.Context, key Key, after Mention, limit int) ([]Mention, error)
	ToolLogPage(ctx context.Context, key Key, after string, limit int) ([]ToolLog, error)

	// ReplaceRecords replaces the payloads of records of a thread, by their ids; everything else of a record, and the thread's
	// row, stays. An empty payload is null. ReplaceToolLogs replaces the inputs and outputs of tool logs, by their calls' ids; what
	// is nil stays. Both leave out ids that do not exist, such as those of an erased thread, and return an [ErrInvalid] error for
	// what Append would reject. Large numbers are replaced in several transactions: if one fails, repeat the call.
	ReplaceRecords(ctx context.Context, key Key, records ...event.Record) error
	ReplaceToolLogs(ctx context.Context, key Key, logs ...ToolLog) error

	// ForgetMessages deletes the mentions of a thread whose sources have these ids, and the descriptions and relations of the
	// entities that they mention, since they may come from there. Entities that nothing else mentions are deleted, as with
	// EraseThread. It ends queued extractions with these sources, and those of the contents of events with these ids: an
	// extraction that is running adds nothing, and none is queued again.
	//
	// The source of a message has the id of its record. Extractions that an event asked for may have another one: see
	// [Extraction].SourceID.
	ForgetMessages(ctx context.Context, key Key, ids ...string) error

	// ForgetEntities deletes the entities of a namespace that match, with everything that was merged into them, as DeleteEntity
	// does, and returns how many roots it has deleted. An entity matches if its name, the name of one that was merged into it, or
	// a name by which a mention knows one of them does. Repeat the call if it fails, or if entities are found at the same time.
	ForgetEntities(ctx context.Context, namespace string, match func(name string) bool) (int, error)

	// Scrub removes what was deleted from the files of the store, as far as its database can: see the drivers. It may be slow.
	Scrub(ctx context.Context) error
}

// ThreadContents counts what a store has of a thread.
type ThreadContents struct {
	// Records, which include the messages.
	Records int `json:"records"`

	// Logs of tool calls.
	ToolLogs int `json:"toolLogs"`

	// Texts that are queued for the extraction of entities.
	Extractions int `json:"extractions"`

	// Mentions of entities.
	Mentions int `json:"mentions"`

	// Knowledge documents that were ingested from the thread.
	Documents int `json:"documents"`
}

// Add returns the sums of two counts.
func (c ThreadContents) Add(d ThreadContents) ThreadContents {
	return ThreadContents{
		c.Records + d.Records, c.ToolLogs + d.ToolLogs, c.Extractions + d.Extractions, c.Mentions + d.Mentions, c.Documents + d.Documents,
	}
}

// EraseBatch is how many rows a transaction of [Erasures] deletes or replaces: others may write in between.
const EraseBatch = 2000
