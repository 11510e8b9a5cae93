package postgres

import (
	"context"
	"fmt"
)

// scrubbed are the tables that have what belongs to threads.
var scrubbed = []string{
	"threads", "thread_marks", "records", "tool_logs", "entity_extractions", "entities", "entity_mentions", "entity_relations",
	"entity_merges", "entity_vectors", "knowledge_documents", "knowledge_contents", "knowledge_chunks", "knowledge_words", "knowledge_word_chunks",
}

// scrub implements [store.Erasures].Scrub. VACUUM frees the room of deleted rows, whose bytes stay until it is reused, as they do in
// the write-ahead log of the server. It waits for nobody and locks nobody out: rows that an older transaction can still
// see, and tables that are vacuumed at this moment, are left to the next VACUUM.
func (s *Store) scrub(ctx context.Context) error {
	for _, table := range scrubbed {
		if _, err := s.pool.Exec(ctx, `VACUUM (SKIP_LOCKED, TRUNCATE FALSE) `+table); err != nil {
			return fmt.Errorf("vacuuming %s: %w", table, err)
		}
	}
	return nil
}
