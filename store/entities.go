package store

import (
	"context"
	"time"
)

// Entities stores the people and things that messages mention, and what is still to be read for them. Nothing of one
// namespace is ever found in another one.
//
// An entity is never deleted by a merge: it points to the one that it was merged into, its root, and its mentions stay its own.
// So a merge can be undone. Entities, counts and relations are shown for roots, with everything that was merged into them.
type Entities interface {
	// QueueExtraction queues a text in which entities are to be found, unless its id was queued before, even if it was ended
	// since: the ids of ended extractions are kept. [Batch].Extract does the same in the transaction of an append.
	QueueExtraction(ctx context.Context, namespace string, x Extraction) error

	// Extractions returns what is queued, oldest first; default and maximum [MaxExtractions].
	Extractions(ctx context.Context, namespace string, limit int) ([]Extraction, error)

	// ExtractionNamespaces returns the namespaces that have queued extractions, in order.
	ExtractionNamespaces(ctx context.Context) ([]string, error)

	// EndExtraction adds what was found in a text and takes it from the queue, in one transaction. If it is not queued, it adds
	// nothing and reports false. Of an ended extraction, only the id is kept.
	EndExtraction(ctx context.Context, namespace, id string, found EntitiesFound) (bool, error)

	// Entity returns a root with what was merged into it, or ErrNotFound. The id of a merged entity is that of its root.
	Entity(ctx context.Context, namespace, id string) (Entity, error)

	// Entities returns roots, those with the most mentions first.
	Entities(ctx context.Context, namespace string, page EntityPage) ([]Entity, error)

	// EntitiesNamed returns the roots that have one of these names, or that something was merged into that has; case does not
	// matter. At most [MaxEntityPage].
	EntitiesNamed(ctx context.Context, namespace string, names []string) ([]Entity, error)

	// SimilarEntities returns entities of a type, merged ones too, whose vectors of an embedder are the most similar, the best
	// first, with the ids and names of their roots. At most limit; default [DefaultEntityPage], maximum [MaxEntityPage].
	// Vectors of another dimension are ignored, and one without a direction finds nothing.
	SimilarEntities(ctx context.Context, namespace, typ, embedder string, vector []float32, limit int) ([]SimilarEntity, error)

	// EntityNamespaces returns the namespaces that have entities, in order.
	EntityNamespaces(ctx context.Context) ([]string, error)

	// EntitiesWithout returns the entities, merged ones too, whose names have no vector of an embedder, by their ids, which are
	// greater than after. At most limit; default [DefaultEntityPage], maximum [MaxEntityPage].
	EntitiesWithout(ctx context.Context, namespace, embedder, after string, limit int) ([]EntityVector, error)

	// AddEntityVectors adds vectors of an embedder to names that have none of it; those of entities that do not exist are left
	// out. A name whose vector has no direction counts as one that has one, although SimilarEntities does not find it. Vectors of
	// other embedders stay until DropEntityVectors deletes them: all but those of one embedder.
	AddEntityVectors(ctx context.Context, namespace, embedder string, vectors []EntityVector) error
	DropEntityVectors(ctx context.Context, namespace, exceptOf string) error

	// Mentions returns the mentions of a root, and of what was merged into it, newest first. As in Relations and Merges, the id
	// of a merged entity is that of its root, and one that does not exist has none.
	Mentions(ctx context.Context, namespace, id string, page MentionPage) ([]Mention, error)

	// Relations returns the relations of a root, and of what was merged into it, to other roots, newest first; each as it was
	// found, so that two roots may have several with different reasons. At most [MaxEntityPage].
	Relations(ctx context.Context, namespace, id string) ([]Relation, error)

	// MergeEntities merges a root into another one. It returns ErrNotFound if one of them is no root, and an ErrInvalid error
	// if they are the same. A merge whose id exists is returned as it is, even if it was undone; if it is one of other entities,
	// the error is ErrInvalid.
	MergeEntities(ctx context.Context, namespace string, m EntityMerge) (EntityMerge, error)

	// UndoMerge makes a merged entity a root again, with everything that was merged into it. Undoing twice changes nothing. A
	// merge that does not exist is ErrNotFound.
	UndoMerge(ctx context.Context, namespace, mergeID, by string) (EntityMerge, error)

	// Merges returns the merges of a root, or of all if id is empty, newest first; undone ones too, of both of their entities.
	// At most [MaxEntityPage].
	Merges(ctx context.Context, namespace, id string) ([]EntityMerge, error)

	// DeleteEntity deletes a root with everything that was merged into it, its mentions, relations and merges, or returns
	// ErrNotFound, as for the id of a merged entity.
	DeleteEntity(ctx context.Context, namespace, id string) error
}

// Extraction is a text in which entities are to be found.
type Extraction struct {
	// ID is unique in the namespace.
	ID string `json:"id"`

	// ThreadID is the thread of the text, and EventID its record. Content is the text itself, if it is no message.
	ThreadID string `json:"threadId"`
	EventID  string `json:"eventId"`
	Content  string `json:"content,omitempty"`

	// SourceType is what the text is, such as message, and SourceID its id.
	SourceType string `json:"sourceType"`
	SourceID   string `json:"sourceId"`

	// QueuedAt is now if it is zero.
	QueuedAt time.Time `json:"queuedAt"`
}

// EntitiesFound is what was found in a text. Some of the entities may have changed since they were read: what refers to one
// that does not exist is left out, as are merges of entities that are no roots any more. Merges into a merged entity are
// into its root.
type EntitiesFound struct {
	// New are entities that do not exist yet, Mentions those of new and of existing entities, Relations and Merges may refer to
	// both. New entities whose ids exist are left as they are, as are merges. Of each, the first [MaxFound] are added.
	New       []NewEntity
	Mentions  []Mention
	Relations []Relation
	Merges    []EntityMerge

	// Described adds descriptions to existing entities, by their ids.
	Described map[string]string
}

// NewEntity is an entity with the vector of its name by an embedder. Without a vector, or with one that has no direction,
// SimilarEntities does not find it.
type NewEntity struct {
	ID, Name, Type, Description string

	Embedder string
	Vector   []float32
}

// EntityVector is the vector of the name of an entity, which [Entities].EntitiesWithout leaves out.
type EntityVector struct {
	ID, Name string
	Vector   []float32
}

// Entity is a person or a thing, with what was merged into it.
type Entity struct {
	// The id of the entity.
	ID string `json:"id"`

	// Its name.
	Name string `json:"name"`

	// What it is, such as person or organization.
	Type string `json:"type"`

	// What messages say about it, the oldest first.
	//
	// Each is there once; the newest [MaxDescriptions] are kept.
	Descriptions []string `json:"descriptions" nullable:"false"`

	// The other names of what was merged into it.
	//
	// Those that differ from its own, each once, the oldest entities' first.
	Aliases []string `json:"aliases" nullable:"false"`

	// How often it was mentioned.
	Mentions int `json:"mentions"`

	// When it was found.
	CreatedAt time.Time `json:"createdAt,omitzero"`

	// When it was mentioned last.
	MentionedAt time.Time `json:"mentionedAt,omitzero"`
}

// EntityPage selects roots.
type EntityPage struct {
	// Type selects entities of this type, Search those whose name or alias contains the text; case does not matter in ASCII.
	// Empty = all.
	Type, Search string

	// Limit is the maximum number. Default 50, at most [MaxEntityPage].
	Limit int

	// AfterMentions and AfterID are those of the last entity of the previous page.
	AfterMentions int
	AfterID       string
}

// SimilarEntity is an entity whose name is similar.
type SimilarEntity struct {
	ID, Name string

	// Root and RootName are those of the entity that it was merged into, or its own.
	Root, RootName string

	// Descriptions are those of the root.
	Descriptions []string
	Similarity   float64
}

// Mention says that a text mentions an entity. An entity has one for each source of a thread.
type Mention struct {
	// The id of the entity, which may have been merged into another one.
	EntityID string `json:"entity"`

	// The name by which it was mentioned.
	Name string `json:"name"`

	// The thread.
	ThreadID string `json:"thread"`

	// What mentions it, such as message.
	SourceType string `json:"sourceType"`

	// The id of the message.
	SourceID string `json:"sourceId"`

	// The sentence that mentions it.
	//
	// A long sentence is cut after its beginning.
	Text string `json:"text,omitempty"`

	// When.
	At time.Time `json:"at"`
}

// MentionPage selects mentions.
type MentionPage struct {
	// Limit is the maximum number. Default 50, at most [MaxEntityPage].
	Limit int

	// Before, if BeforeAt is set, is the last mention of the previous page. Mentions of the same time come in the order of
	// their source types, source ids, entities and threads.
	BeforeAt                                                     time.Time
	BeforeSourceType, BeforeSourceID, BeforeEntity, BeforeThread string
}

// Relation relates two entities.
type Relation struct {
	// The id of an entity.
	//
	// In results, From and To are the ids of roots, with their names.
	From string `json:"from"`

	// Its name.
	FromName string `json:"fromName,omitempty"`

	// The id of another entity.
	To string `json:"to"`

	// Its name.
	ToName string `json:"toName,omitempty"`

	// How they are related, such as related_to.
	Type string `json:"type"`

	// Why.
	Reason string `json:"reason,omitempty"`

	// Since when.
	At time.Time `json:"at"`
}

// RelatedTo is the type of the relation of two entities that a model keeps apart although their names are similar.
const RelatedTo = "related_to"

// EntityMerge is a merge of an entity into another one.
type EntityMerge struct {
	// The id of the merge.
	ID string `json:"id"`

	// The id of the entity that was merged.
	From string `json:"from"`

	// Its name.
	FromName string `json:"fromName,omitempty"`

	// The id of the entity that it was merged into.
	Into string `json:"into"`

	// Its name.
	IntoName string `json:"intoName,omitempty"`

	// How similar their names are.
	//
	// 0 if a person merged them.
	Similarity float64 `json:"similarity,omitempty"`

	// Who decided it: threshold, a model, or a person.
	//
	// It is "threshold", the model, or the person.
	By string `json:"by"`

	// When.
	At time.Time `json:"at"`

	// Who undid it.
	UndoneBy string `json:"undoneBy,omitempty"`

	// When it was undone.
	UndoneAt time.Time `json:"undoneAt,omitzero"`
}

// Limits of [Entities].
const (
	MaxExtractions  = 100
	MaxEntityPage   = 200
	MaxDescriptions = 20

	// MaxFound is the maximum number of new entities, mentions, relations, merges and descriptions of a text.
	MaxFound = 100

	DefaultEntityPage = 50
)
