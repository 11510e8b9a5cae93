package sqlstore

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill/store"
)

const (
	maxEntityID          = 200
	maxEntitySource      = 1000
	maxEntityName        = 200
	maxEntityType        = 64
	maxEntityDescription = 1000
	maxEntityText        = 500
	maxExtraction        = 64 << 10
)

// normalizeExtraction returns an extraction in the form that every driver stores, or a [store.ErrInvalid] error. A content that is
// too long is cut.
func normalizeExtraction(namespace string, x store.Extraction) (store.Extraction, error) {
	if err := checkWord("namespace", namespace); err != nil {
		return x, err
	}
	if err := checkID("extraction", x.ID, maxEntitySource); err != nil {
		return x, err
	}
	if err := checkSource(x.ThreadID, x.SourceType, x.SourceID); err != nil {
		return x, err
	}
	if !store.Storable(x.EventID) {
		return x, invalid("eventId: must be UTF-8 without NUL characters")
	}
	x.Content, x.QueuedAt = cutText(x.Content, maxExtraction), stampOrNow(x.QueuedAt)
	return x, nil
}

// normalizeFound returns what was found in a text in the form that every driver stores, each thing once, or a [store.ErrInvalid]
// error. What a model wrote is cut if it is too long.
func normalizeFound(found store.EntitiesFound) (f store.EntitiesFound, err error) {
	if f.New, err = normalizeAll(found.New, func(e store.NewEntity) string { return e.ID }, normalizeNew); err != nil {
		return f, err
	}
	type source struct{ entity, typ, id string }
	sourceOf := func(m store.Mention) source { return source{m.EntityID, m.SourceType, m.SourceID} }
	if f.Mentions, err = normalizeAll(found.Mentions, sourceOf, normalizeMention); err != nil {
		return f, err
	}
	type ends struct{ from, to, typ string }
	endsOf := func(r store.Relation) ends { return ends{r.From, r.To, entityType(r.Type)} }
	if f.Relations, err = normalizeAll(found.Relations, endsOf, normalizeRelation); err != nil {
		return f, err
	}
	if f.Merges, err = normalizeAll(found.Merges, func(m store.EntityMerge) string { return m.ID }, normalizeOneMerge); err != nil {
		return f, err
	}
	f.Described, err = normalizeDescribed(found.Described)
	return f, err
}

// normalizeMerge returns a merge in the form that every driver stores, or a [store.ErrInvalid] error.
func normalizeMerge(namespace string, m store.EntityMerge) (store.EntityMerge, error) {
	if err := checkWord("namespace", namespace); err != nil {
		return m, err
	}
	return normalizeOneMerge(m)
}

// normalizeAll normalizes the first things that have different keys.
func normalizeAll[T any, K comparable](given []T, key func(T) K, normalize func(T) (T, error)) ([]T, error) {
	var all []T
	known := map[K]bool{}
	for _, one := range given {
		if len(all) == store.MaxFound {
			break
		}
		if k := key(one); known[k] {
			continue
		} else {
			known[k] = true
		}
		one, err := normalize(one)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func normalizeNew(e store.NewEntity) (store.NewEntity, error) {
	e.Name, e.Type, e.Description = entityName(e.Name), entityType(e.Type), entityText(e.Description, maxEntityDescription)
	switch {
	case e.Name == "":
		return e, invalid("entity %q: name: is required", e.ID)
	case e.Type == "":
		return e, invalid("entity %q: type: is required", e.ID)
	case e.Embedder == "" && len(e.Vector) == 0:
		return e, checkID("entity", e.ID, maxEntityID)
	}
	if err := checkWord("embedder", e.Embedder); err != nil {
		return e, err
	}
	v, err := normalizeVector(store.EntityVector{ID: e.ID, Vector: e.Vector})
	e.Vector = v.Vector
	return e, err
}

// normalizeEntityVectors returns vectors of names in the form that every driver stores, each entity's once, or a [store.ErrInvalid]
// error. Those without a direction are nil.
func normalizeEntityVectors(namespace, embedder string, vectors []store.EntityVector) ([]store.EntityVector, error) {
	if err := checkWord("namespace", namespace); err != nil {
		return nil, err
	}
	if err := checkWord("embedder", embedder); err != nil {
		return nil, err
	}
	if len(vectors) > store.MaxEntityPage {
		return nil, invalid("vectors: are %d, at most %d can be added at once", len(vectors), store.MaxEntityPage)
	}
	known := map[string]bool{}
	var all []store.EntityVector
	for _, v := range vectors {
		v, err := normalizeVector(v)
		if err != nil {
			return nil, err
		}
		if !known[v.ID] {
			known[v.ID], all = true, append(all, v)
		}
	}
	return all, nil
}

func normalizeVector(v store.EntityVector) (store.EntityVector, error) {
	if n := len(v.Vector); n > store.MaxKnowledgeDimension {
		return v, invalid("entity %q: the vector has the dimension %d, at most %d are kept", v.ID, n, store.MaxKnowledgeDimension)
	}
	unit, ok := unitVector(v.Vector)
	if !ok {
		unit = nil
	}
	v.Vector = unit
	return v, checkID("entity", v.ID, maxEntityID)
}

func normalizeMention(m store.Mention) (store.Mention, error) {
	if err := checkID("entity", m.EntityID, maxEntityID); err != nil {
		return m, err
	}
	m.Name, m.Text, m.At = entityName(m.Name), entityText(m.Text, maxEntityText), stampOrNow(m.At)
	return m, checkSource(m.ThreadID, m.SourceType, m.SourceID)
}

func normalizeRelation(r store.Relation) (store.Relation, error) {
	r.Type, r.Reason, r.At = entityType(r.Type), entityText(r.Reason, maxEntityText), stampOrNow(r.At)
	r.FromName, r.ToName = "", ""
	if r.Type == "" {
		return r, invalid("relation of %q: type: is required", r.From)
	}
	if err := checkID("from", r.From, maxEntityID); err != nil {
		return r, err
	}
	return r, checkID("to", r.To, maxEntityID)
}

func normalizeOneMerge(m store.EntityMerge) (store.EntityMerge, error) {
	for _, id := range []struct{ field, id string }{{"merge", m.ID}, {"from", m.From}, {"into", m.Into}} {
		if err := checkID(id.field, id.id, maxEntityID); err != nil {
			return m, err
		}
	}
	if m.From == m.Into {
		return m, invalid("entity %q cannot be merged into itself", m.From)
	}
	if math.IsNaN(m.Similarity) {
		m.Similarity = 0
	}
	m.Similarity, m.By, m.At = max(-1, min(m.Similarity, 1)), entityName(m.By), stampOrNow(m.At)
	m.FromName, m.IntoName, m.UndoneBy, m.UndoneAt = "", "", "", time.Time{}
	return m, nil
}

func normalizeDescribed(given map[string]string) (map[string]string, error) {
	described := make(map[string]string, len(given))
	for _, id := range slices.Sorted(maps.Keys(given)) {
		if err := checkID("described", id, maxEntityID); err != nil {
			return nil, err
		}
		if text := entityText(given[id], maxEntityDescription); text != "" && len(described) < store.MaxFound {
			described[id] = text
		}
	}
	return described, nil
}

func checkID(field, id string, limit int) error {
	if err := checkWord(field, id); err != nil {
		return err
	}
	if len(id) > limit {
		return invalid("%s: the id is %d bytes, at most %d are kept", field, len(id), limit)
	}
	return nil
}

func checkSource(thread, typ, id string) error {
	if !store.Storable(thread) {
		return invalid("threadId: must be UTF-8 without NUL characters")
	}
	if err := checkID("sourceType", typ, maxEntityType); err != nil {
		return err
	}
	return checkID("sourceId", id, maxEntitySource)
}

// entityName returns a name of an entity, or of a person, as drivers store it.
func entityName(name string) string { return entityText(name, maxEntityName) }

// entityType returns a type of entities or relations as drivers store it.
func entityType(typ string) string { return entityText(strings.ToLower(typ), maxEntityType) }

// entityKeys returns the keys by which drivers find names: they are equal for names that differ only in case.
func entityKeys(names ...string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = nameKey(entityName(name))
	}
	return keys
}

// entityText returns the beginning of what a model wrote.
func entityText(s string, limit int) string {
	return strings.TrimSpace(cutText(strings.TrimSpace(s), limit))
}

func stampOrNow(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return stamp(t)
}

// entityLimit applies the default and the maximum of a number of entities or mentions.
func entityLimit(limit int) int {
	if limit <= 0 {
		return store.DefaultEntityPage
	}
	return min(limit, store.MaxEntityPage)
}

// extractionLimit applies the default and the maximum of a number of extractions.
func extractionLimit(limit int) int {
	if limit <= 0 {
		return store.MaxExtractions
	}
	return min(limit, store.MaxExtractions)
}

// entityPageDefaults returns the page with its default limit, and with the type as it is stored. Without a last entity, it begins
// with the most mentions that there can be.
func entityPageDefaults(p store.EntityPage) store.EntityPage {
	p.Limit, p.Type = entityLimit(p.Limit), entityType(p.Type)
	if p.AfterID == "" {
		p.AfterMentions = math.MaxInt
	}
	return p
}

// lastMoment is later than anything was mentioned, and one that all drivers can store.
var lastMoment = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// mentionPageDefaults returns the page with its default limit. Without a last mention, it begins with the latest that there can be.
func mentionPageDefaults(p store.MentionPage) store.MentionPage {
	p.Limit = entityLimit(p.Limit)
	if p.BeforeAt.IsZero() {
		p.BeforeAt = lastMoment
	}
	p.BeforeAt = stamp(p.BeforeAt)
	return p
}

// nameKey returns what names have in common that differ only in case.
func nameKey(name string) string {
	key, _ := store.AgentKey("", name)
	return key
}
