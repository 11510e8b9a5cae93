package store

import (
	"context"
	"fmt"
	"time"
)

// ErrErased means that the thread was erased: nothing of it exists, and nothing is stored for it again. It is an ErrNotFound
// too. A retry does not help.
var ErrErased = fmt.Errorf("the thread was erased: %w", ErrNotFound)

// Erasures deletes threads for good. Of an erased thread, the store keeps the key, the time and the id of
// its parent thread.
type Erasures interface {
	// MarkErased deletes the row of a thread and reserves its key: what is stored for the thread from then on, by Append,
	// QueueExtraction or BeginKnowledge, fails with ErrErased. The thread need not exist, and may be marked before.
	MarkErased(ctx context.Context, key Key) error

	// EraseThread marks a thread as erased and deletes its records, its tool logs, its queued extractions, its mentions and
	// the revisions of documents that it asked for. It may be repeated, and must be if it fails.
	//
	// A document of which others asked for a revision stays with that one: see [KnowledgeDocument.Without].
	//
	// An entity that nothing else mentions is deleted. One that other threads mention keeps no description and no relation, since
	// they may be of this thread, and has a name that another thread uses. A merge of a deleted entity is forgotten.
	EraseThread(ctx context.Context, key Key) error

	// ThreadContents counts what EraseThread would delete.
	ThreadContents(ctx context.Context, key Key) (ThreadContents, error)

	// ThreadDocuments returns the ids of the knowledge documents that have a revision, a title or metadata of a thread, in order.
	ThreadDocuments(ctx context.Context, key Key) ([]string, error)

	// SubThreads returns the ids of the threads that have a thread as [ThreadUpdate].Parent, in order: those of its sub-agents.
	// Threads that are marked as erased are among them, since some of their contents may be left.
	SubThreads(ctx context.Context, key Key) ([]string, error)

	// OldToolLogs counts the logs of tool calls of a namespace that ended before a time, and PruneToolLogs deletes some of
	// them, at most [EraseBatch], and returns how many. Calls that wait for people or continue elsewhere have not ended.
	OldToolLogs(ctx context.Context, namespace string, before time.Time) (int, error)
	PruneToolLogs(ctx context.Context, namespace string, before time.Time) (int, error)

	// ThreadMentions returns the mentions of a thread in the order of their source types, source ids and entities, after one of
	// them, and ToolLogPage its tool logs in the order of their calls' ids, after one of these. Limit is at most [MaxLimit].
	ThreadMentions(ctx context.Context, key Key, after Mention, limit int) ([]Mention, error)
	ToolLogPage(ctx context.Context, key Key, after string, limit int) ([]ToolLog, error)

	// Scrub removes what was deleted from the files of the store, as far as its database can: see the drivers. It may be slow.
	Scrub(ctx context.Context) error
}

// ThreadContents counts what a store has of a thread.
type ThreadContents struct {
	Records     int `json:"records" doc:"Records, which include the messages"`
	ToolLogs    int `json:"toolLogs" doc:"Logs of tool calls"`
	Extractions int `json:"extractions" doc:"Texts that are queued for the extraction of entities"`
	Mentions    int `json:"mentions" doc:"Mentions of entities"`
	Documents   int `json:"documents" doc:"Knowledge documents that were ingested from the thread"`
}

// Add returns the sums of two counts.
func (c ThreadContents) Add(d ThreadContents) ThreadContents {
	return ThreadContents{
		c.Records + d.Records, c.ToolLogs + d.ToolLogs, c.Extractions + d.Extractions, c.Mentions + d.Mentions, c.Documents + d.Documents,
	}
}

// EraseBatch is how many rows a transaction of [Erasures].EraseThread deletes: others may write in between.
const EraseBatch = 2000

// Forgetting is a transaction of a driver that forgets the mentions of a thread.
type Forgetting interface {
	// DropMentions deletes the mentions of a thread, and the descriptions and relations of the entities that it mentions. It
	// counts the mentions of these entities again, and returns their ids.
	DropMentions(ctx context.Context, threadID string) ([]string, error)

	// Standing returns what is left of an entity.
	Standing(ctx context.Context, id string) (EntityStanding, error)

	// Rename gives an entity another name, without vectors.
	Rename(ctx context.Context, id, name string) error

	// Repoint makes parent the entity that those merged into id are merged into. Promote makes an entity the root of those
	// whose root is another one.
	Repoint(ctx context.Context, id, parent string) error
	Promote(ctx context.Context, id, root string) error

	// Remove deletes an entity, with its relations, merges and vectors. Recount counts the mentions of the root of an
	// entity again.
	Remove(ctx context.Context, id string) error
	Recount(ctx context.Context, id string) error
}

// EntityStanding is what is left of an entity without the mentions of a thread.
type EntityStanding struct {
	// Mentions are its own mentions. Parent is the entity that it was merged into, "" of a root. Heir is the oldest of those
	// that were merged into it, if there are any.
	Mentions     int
	Parent, Heir string

	// Name is its name if a mention uses it, or else the one of its newest mention.
	Name, Uses string
}

// ForgetMentions forgets the mentions of a thread as [Erasures].EraseThread does.
func ForgetMentions(ctx context.Context, tx Forgetting, threadID string) error {
	ids, err := tx.DropMentions(ctx, threadID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := forgetEntity(ctx, tx, id); err != nil {
			return fmt.Errorf("entity %q: %w", id, err)
		}
	}
	return nil
}

func forgetEntity(ctx context.Context, tx Forgetting, id string) error {
	s, err := tx.Standing(ctx, id)
	if err != nil {
		return err
	}
	if s.Mentions > 0 {
		if s.Name != s.Uses {
			if err := tx.Rename(ctx, id, s.Uses); err != nil {
				return err
			}
		}
		return tx.Recount(ctx, id)
	}
	next := s.Parent
	if next == "" && s.Heir != "" {
		next = s.Heir
		if err := tx.Promote(ctx, next, id); err != nil {
			return err
		}
	}
	if s.Heir != "" {
		if err := tx.Repoint(ctx, id, next); err != nil {
			return err
		}
	}
	if err := tx.Remove(ctx, id); err != nil || next == "" {
		return err
	}
	return tx.Recount(ctx, next)
}
