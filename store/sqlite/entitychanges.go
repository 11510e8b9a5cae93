package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/threadmill/threadmill/store"
)

// EndExtraction implements [store.Entities].
func (s *Store) EndExtraction(ctx context.Context, namespace, id string, found store.EntitiesFound) (ended bool, err error) {
	found, err = store.NormalizeFound(found)
	if err == nil {
		err = s.resolving(ctx, namespace, func(r *resolving) error {
			changed, err := r.exec(ctx, r.end, namespace, id)
			if ended = changed > 0; err != nil || !ended {
				return err
			}
			return r.add(ctx, found)
		})
	}
	return ended && err == nil, entityError("ending the extraction", namespace, id, err)
}

// MergeEntities implements [store.Entities].
func (s *Store) MergeEntities(ctx context.Context, namespace string, m store.EntityMerge) (store.EntityMerge, error) {
	done, err := store.NormalizeMerge(namespace, m)
	if err == nil {
		err = s.resolving(ctx, namespace, func(r *resolving) error {
			done, err = store.MergeRoots(ctx, r, done)
			return err
		})
	}
	if err != nil {
		return store.EntityMerge{}, entityError("merging the entity", namespace, m.From, err)
	}
	return done, nil
}

// UndoMerge implements [store.Entities].
func (s *Store) UndoMerge(ctx context.Context, namespace, mergeID, by string) (store.EntityMerge, error) {
	var undone store.EntityMerge
	err := s.resolving(ctx, namespace, func(r *resolving) (err error) {
		undone, err = r.undo(ctx, mergeID, store.EntityName(by))
		return err
	})
	if err != nil {
		return store.EntityMerge{}, entityError("undoing the merge", namespace, mergeID, err)
	}
	return undone, nil
}

// DeleteEntity implements [store.Entities].
func (s *Store) DeleteEntity(ctx context.Context, namespace, id string) error {
	err := s.resolving(ctx, namespace, func(r *resolving) error {
		if err := store.RequireRoot(ctx, r, id); err != nil {
			return err
		}
		return r.deleteRoot(ctx, id)
	})
	return entityError("deleting the entity", namespace, id, err)
}

func (r *resolving) deleteRoot(ctx context.Context, id string) error {
	for _, stmt := range []*sql.Stmt{r.removeMentions, r.removeFrom, r.removeTo, r.removeMergesFrom, r.removeMergesInto, r.removeVectors, r.remove} {
		if _, err := r.exec(ctx, stmt, r.namespace, id); err != nil {
			return err
		}
	}
	return nil
}

// AddEntityVectors implements [store.Entities].
func (s *Store) AddEntityVectors(ctx context.Context, namespace, embedder string, vectors []store.EntityVector) error {
	vectors, err := store.NormalizeEntityVectors(namespace, embedder, vectors)
	if err == nil {
		err = s.resolving(ctx, namespace, func(r *resolving) error {
			for _, v := range vectors {
				if err := r.embedEntity(ctx, embedder, v); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return entityError("adding vectors of "+embedder+" to entities", namespace, "*", err)
}

// DropEntityVectors implements [store.Entities].
func (s *Store) DropEntityVectors(ctx context.Context, namespace, exceptOf string) error {
	err := s.resolving(ctx, namespace, func(r *resolving) error {
		_, err := r.exec(ctx, r.dropVectors, namespace, exceptOf)
		return err
	})
	return entityError("deleting vectors of entities but those of "+exceptOf, namespace, "*", err)
}

// resolving is one transaction that changes the entities of a namespace.
type resolving struct {
	writing
	*entityWrites
	namespace string
	now       time.Time
}

func (s *Store) resolving(ctx context.Context, namespace string, run func(*resolving) error) error {
	return s.writing(ctx, func(w writing) error {
		return run(&resolving{writing: w, entityWrites: &s.writeEntities, namespace: namespace, now: time.Now()})
	})
}

// add adds what was found in a text.
func (r *resolving) add(ctx context.Context, found store.EntitiesFound) error {
	for _, e := range found.New {
		if err := r.createEntity(ctx, e); err != nil {
			return fmt.Errorf("entity %q: %w", e.ID, err)
		}
	}
	for id, text := range found.Described {
		if err := r.describeEntity(ctx, id, text); err != nil {
			return fmt.Errorf("description of %q: %w", id, err)
		}
	}
	for _, m := range found.Mentions {
		if err := r.mentionEntity(ctx, m); err != nil {
			return fmt.Errorf("mention of %q: %w", m.EntityID, err)
		}
	}
	for _, l := range found.Relations {
		if _, err := r.exec(ctx, r.relate, r.namespace, l.From, l.To, l.Type, l.Reason, l.At.UnixMicro()); err != nil {
			return fmt.Errorf("relation of %q: %w", l.From, err)
		}
	}
	for _, m := range found.Merges {
		if err := store.MergeFound(ctx, r, m); err != nil {
			return fmt.Errorf("merge of %q: %w", m.From, err)
		}
	}
	return nil
}

func (r *resolving) createEntity(ctx context.Context, e store.NewEntity) error {
	known, _ := store.Describe([]store.EntityDescription{}, e.Description, r.now)
	descriptions, err := json.Marshal(known)
	if err != nil {
		return err
	}
	added, err := r.exec(ctx, r.create, r.namespace, e.ID, e.Name, store.EntityKeys(e.Name)[0], e.Type, string(descriptions), r.now.UnixMicro())
	if err != nil || added == 0 || e.Embedder == "" {
		return err
	}
	return r.embedEntity(ctx, e.Embedder, store.EntityVector{ID: e.ID, Vector: e.Vector})
}

func (r *resolving) embedEntity(ctx context.Context, embedder string, v store.EntityVector) error {
	var vector any // NULL
	if v.Vector != nil {
		vector = store.VectorBytes(v.Vector)
	}
	_, err := r.exec(ctx, r.addVector, r.namespace, v.ID, embedder, vector)
	return err
}

func (r *resolving) describeEntity(ctx context.Context, id, text string) error {
	var raw []byte
	err := r.row(ctx, r.descriptions, r.namespace, id).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	var known []store.EntityDescription
	if err == nil {
		err = json.Unmarshal(raw, &known)
	}
	if err != nil {
		return err
	}
	known, changed := store.Describe(known, text, r.now)
	if !changed {
		return nil
	}
	if raw, err = json.Marshal(known); err == nil {
		_, err = r.exec(ctx, r.describe, r.namespace, id, string(raw))
	}
	return err
}

func (r *resolving) mentionEntity(ctx context.Context, m store.Mention) error {
	at := m.At.UnixMicro()
	added, err := r.exec(ctx, r.mention, r.namespace, m.EntityID, m.Name, m.ThreadID, m.SourceType, m.SourceID, m.Text, at)
	if err != nil || added == 0 {
		return err
	}
	if _, err := r.exec(ctx, r.count, r.namespace, m.EntityID, at); err != nil {
		return err
	}
	_, err = r.exec(ctx, r.countRoot, r.namespace, m.EntityID)
	return err
}

// RootOf implements [store.Merging].
func (r *resolving) RootOf(ctx context.Context, id string) (root string, err error) {
	err = notFound(r.row(ctx, r.root, r.namespace, id).Scan(&root))
	return root, err
}

// Merge implements [store.Merging].
func (r *resolving) Merge(ctx context.Context, id string) (store.EntityMerge, error) {
	m, err := scanMerge(r.row(ctx, r.merge, r.namespace, id))
	return m, notFound(err)
}

// MergeInto implements [store.Merging].
func (r *resolving) MergeInto(ctx context.Context, m store.EntityMerge) error {
	for _, step := range []*sql.Stmt{r.into, r.move} {
		if _, err := r.exec(ctx, step, r.namespace, m.From, m.Into); err != nil {
			return err
		}
	}
	if _, err := r.exec(ctx, r.recount, r.namespace, m.Into); err != nil {
		return err
	}
	_, err := r.exec(ctx, r.addMerge, r.namespace, m.ID, m.From, m.Into, m.Similarity, m.By, m.At.UnixMicro())
	return err
}

func (r *resolving) undo(ctx context.Context, id, by string) (store.EntityMerge, error) {
	m, err := r.Merge(ctx, id)
	if err != nil || !m.UndoneAt.IsZero() {
		return m, err
	}
	root, err := r.RootOf(ctx, m.From)
	if err != nil {
		return m, err
	}
	for _, step := range []struct {
		stmt   *sql.Stmt
		entity string
	}{{r.out, m.From}, {r.moveOut, m.From}, {r.recount, m.From}, {r.recount, root}} {
		if _, err := r.exec(ctx, step.stmt, r.namespace, step.entity); err != nil {
			return m, err
		}
	}
	if _, err := r.exec(ctx, r.endMerge, r.namespace, id, by, r.now.UnixMicro()); err != nil {
		return m, err
	}
	return r.Merge(ctx, id)
}
