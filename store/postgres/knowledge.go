package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/internal/sqlstore"
)

// index returns the full text and the vectors of documents.
func (s *Store) index() sqlstore.KnowledgeIndex {
	return sqlstore.KnowledgeIndex{
		HasVectors: func() bool { return s.vectors != nil },
		AddChunks:  addLexemes, AddContexts: addContextLexemes,
		DropChunks: func(_ context.Context, _ sqlstore.Querier, _, _ string, _ int, drop func() (int64, error)) error {
			_, err := drop() // words and vectors go with them
			return err
		},
		Show: showRevision, Count: countWordsOf,
		Compact:    func(context.Context, sqlstore.Querier, string) error { return nil },
		AddVectors: s.insertVectors, DropVectors: deleteVectors, SearchText: searchText, SearchVectors: s.searchVectors,
	}
}

// native returns the transaction in which the index is changed or searched.
func native(tx sqlstore.Querier) pgx.Tx { return tx.(querier).on.(pgx.Tx) }

// showRevision lets searches find the chunks of the newest revision of a document, and returns how many it has. The transaction makes
// them visible together with everything else.
func showRevision(ctx context.Context, q sqlstore.Querier, namespace string, d store.KnowledgeDocument) (int, error) {
	tx := native(q)
	added, err := tx.Exec(ctx, addWords, namespace, d.ID, d.Revision, d.Collection)
	if err != nil {
		return 0, err
	}
	return int(added.RowsAffected()), showVectors(ctx, tx, namespace, d)
}

// countWordsOf changes the counts of the namespace last, since their lock holds up other documents.
func countWordsOf(ctx context.Context, q sqlstore.Querier, namespace, id string, revision int, change func() error) error {
	tx := native(q)
	words, err := wordsChanged(ctx, tx, namespace, id, revision)
	if err == nil {
		err = change()
	}
	if err != nil {
		return err
	}
	return words.apply(ctx, tx, namespace)
}
