// Package entities finds the people and things that messages mention, and tells agents what is known about them. It knows no
// Temporal: the workflow of a namespace calls it through an activity.
package entities

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/internal/library/knowledge"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/store"
)

// Config configures [Entities]. Store and Threads are required.
type Config struct {
	Store   store.Entities
	Threads transcript.Reader

	// Provider calls Model, "provider/model", which finds entities in texts and compares them. Nil: nothing is found.
	Provider llm.Provider
	Model    string

	// Embed returns the vectors of names, and Embedder identifies them. Nil: nothing is found.
	Embed    func(ctx context.Context, texts []string) ([][]float32, error)
	Embedder string

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Entities finds entities. It is safe for concurrent use; the extractions of one namespace must be done one after the other,
// or the same entity might be created twice.
type Entities struct {
	cfg Config

	// embedded are the namespaces whose names all had a vector of the embedder once.
	embedded sync.Map
}

// New returns what finds entities.
func New(cfg Config) *Entities {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Entities{cfg: cfg}
}

// Store returns the store of the entities.
func (e *Entities) Store() store.Entities { return e.cfg.Store }

// Lacks returns what is missing to find entities, "" if nothing is.
func (e *Entities) Lacks() string {
	switch {
	case e.cfg.Provider == nil:
		return "no model finds them (Knowledge.EntityModel)"
	case e.cfg.Embed == nil:
		return "no embedder compares their names (Knowledge.Embedder)"
	}
	return ""
}

// Next does the oldest extraction of a namespace. It returns its id, "" if there is none.
func (e *Entities) Next(ctx context.Context, namespace string) (string, error) {
	queued, err := e.cfg.Store.Extractions(ctx, namespace, 1)
	if err != nil || len(queued) == 0 || e.Lacks() != "" {
		return "", err
	}
	x := queued[0]
	text, err := e.text(ctx, namespace, x)
	if err != nil {
		return "", err
	}
	found := store.EntitiesFound{}
	if strings.TrimSpace(text) != "" {
		if err := e.embedBefore(ctx, namespace); err != nil {
			return "", err
		}
		if found, err = e.find(ctx, namespace, x, text); err != nil {
			return "", err
		}
	}
	_, err = e.cfg.Store.EndExtraction(ctx, namespace, x.ID, found)
	return x.ID, err
}

// embedBefore adds the vectors that a namespace lacks before its first extraction: a name that has none of the embedder would never
// be compared with those that are found.
func (e *Entities) embedBefore(ctx context.Context, namespace string) error {
	if _, known := e.embedded.Load(namespace); known {
		return nil
	}
	_, err := e.Embed(ctx, namespace)
	return err
}

// Embed adds vectors of the embedder to the names of a namespace that have none, in batches, so that a repetition continues. It
// returns how many it has added.
func (e *Entities) Embed(ctx context.Context, namespace string) (added int, err error) {
	for after := ""; ; {
		batch, err := e.cfg.Store.EntitiesWithout(ctx, namespace, e.cfg.Embedder, after, store.MaxKnowledgeBatch)
		if err != nil {
			return added, err
		}
		if len(batch) == 0 {
			break
		}
		if err := e.embed(ctx, namespace, batch); err != nil {
			return added, err
		}
		added, after = added+len(batch), batch[len(batch)-1].ID
	}
	e.embedded.Store(namespace, true)
	if added > 0 {
		e.cfg.Logger.InfoContext(ctx, "the names of entities have vectors of another embedder", "namespace", namespace, "embedder", e.cfg.Embedder, "names", added)
	}
	return added, nil
}

func (e *Entities) embed(ctx context.Context, namespace string, names []store.EntityVector) error {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = n.Name
	}
	vectors, err := e.cfg.Embed(ctx, texts)
	if err != nil {
		return err
	}
	for i, v := range vectors {
		names[i].Vector = v
	}
	return e.cfg.Store.AddEntityVectors(ctx, namespace, e.cfg.Embedder, names)
}

// Renew gives all names of a namespace vectors of the embedder, and deletes those of other embedders in the end. It returns how
// many it has added.
func (e *Entities) Renew(ctx context.Context, namespace string) (added int, err error) {
	if e.Lacks() != "" {
		return 0, nil
	}
	if added, err = e.Embed(ctx, namespace); err != nil {
		return added, err
	}
	return added, e.cfg.Store.DropEntityVectors(ctx, namespace, e.cfg.Embedder)
}

// text returns the text of an extraction as models see it: what hooks have hidden from them is not searched either.
func (e *Entities) text(ctx context.Context, namespace string, x store.Extraction) (string, error) {
	if x.Content != "" {
		return x.Content, nil
	}
	m, err := transcript.MessageByID(ctx, e.cfg.Threads, store.Key{Namespace: namespace, ThreadID: x.ThreadID}, x.SourceID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	shown, _ := m.ForModels()
	return shown.Content, nil
}

// find returns what a text mentions.
func (e *Entities) find(ctx context.Context, namespace string, x store.Extraction, text string) (store.EntitiesFound, error) {
	var found store.EntitiesFound
	mentioned, err := e.ask(ctx, text)
	if unusable, ok := errors.AsType[*answerError](err); ok {
		e.cfg.Logger.WarnContext(ctx, "the entities of a text are not found: the model did not answer as asked", "namespace", namespace, "source", x.SourceID, "error", unusable)
		return found, nil
	}
	if err != nil || len(mentioned) == 0 {
		return found, err
	}
	names := make([]string, len(mentioned))
	for i, m := range mentioned {
		names[i] = m.Name
	}
	vectors, err := e.cfg.Embed(ctx, names)
	if err != nil {
		return found, err
	}
	for i, m := range mentioned {
		d := decision{Entities: e, namespace: namespace, x: x, found: &found}
		id, err := d.entityOf(ctx, m, vectors[i])
		if err != nil {
			return found, err
		}
		found.Mentions = append(found.Mentions, store.Mention{
			EntityID: id, Name: m.Name, ThreadID: x.ThreadID, SourceType: x.SourceType, SourceID: x.SourceID, Text: sentence(text, m.Name), At: x.QueuedAt,
		})
	}
	return found, nil
}

// decision decides what one mention becomes.
type decision struct {
	*Entities
	namespace string
	x         store.Extraction
	found     *store.EntitiesFound
}

// entityOf returns the id of the entity that is mentioned: one with the same name and type, or a new one, which may be merged
// into a similar one.
func (d *decision) entityOf(ctx context.Context, m mentioned, vector []float32) (string, error) {
	known, err := d.cfg.Store.EntitiesNamed(ctx, d.namespace, []string{m.Name})
	if err != nil {
		return "", err
	}
	for _, k := range known {
		if k.Type == m.Type {
			d.describe(k.ID, m.Description)
			return k.ID, nil
		}
	}
	created := store.NewEntity{
		ID: entityID(d.namespace, d.x.ID, m), Name: m.Name, Type: m.Type, Description: m.Description, Embedder: d.cfg.Embedder, Vector: vector,
	}
	similar, err := d.cfg.Store.SimilarEntities(ctx, d.namespace, m.Type, d.cfg.Embedder, vector, 1)
	if err != nil {
		return "", err
	}
	d.found.New = append(d.found.New, created)
	if len(similar) == 0 {
		return created.ID, nil
	}
	return created.ID, d.compare(ctx, created, similar[0])
}

// compare merges a new entity into a similar one, or relates them, or does neither.
func (d *decision) compare(ctx context.Context, created store.NewEntity, similar store.SimilarEntity) error {
	by := "threshold"
	switch knowledge.Judge(similar.Similarity) {
	case knowledge.Different:
		return nil
	case knowledge.Unsure:
		same, why, err := d.same(ctx, created, similar)
		if err != nil {
			return err
		}
		if !same {
			d.found.Relations = append(d.found.Relations, store.Relation{From: created.ID, To: similar.Root, Type: store.RelatedTo, Reason: why, At: d.x.QueuedAt})
			return nil
		}
		by = d.cfg.Model
	case knowledge.Same:
	}
	d.found.Merges = append(d.found.Merges, store.EntityMerge{
		ID: "merge-" + created.ID, From: created.ID, Into: similar.Root, Similarity: similar.Similarity, By: by, At: d.x.QueuedAt,
	})
	return nil
}

func (d *decision) describe(id, description string) {
	if description == "" {
		return
	}
	if d.found.Described == nil {
		d.found.Described = map[string]string{}
	}
	d.found.Described[id] = description
}

// entityID returns the id of an entity that an extraction finds: the same one when the extraction is repeated.
func entityID(namespace, extraction string, m mentioned) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{namespace, extraction, m.Type, strings.ToLower(m.Name)}, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// sentence returns the line or the sentence of a text that contains a name.
func sentence(text, name string) string {
	at := strings.Index(strings.ToLower(text), strings.ToLower(name))
	if at < 0 || at > len(text) {
		return cut(text, maxSentence)
	}
	start, end := 0, len(text)
	if before := sentenceEnd.FindAllStringIndex(text[:at], -1); before != nil {
		start = before[len(before)-1][1]
	}
	after := min(at+len(name), end)
	if n := sentenceEnd.FindStringIndex(text[after:]); n != nil {
		end = after + n[1]
	}
	return cut(strings.TrimSpace(text[start:end]), maxSentence)
}

// sentenceEnd is the end of a line or of a sentence; no point of a number or an address is one.
var sentenceEnd = regexp.MustCompile(`[.!?]+(?:\s|$)|\n`)

const maxSentence = 300

// cut cuts a text to a number of bytes, between characters.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// unique returns the mentions without those of the same name and type.
func unique(all []mentioned) []mentioned {
	var out []mentioned
	for _, m := range all {
		if !slices.ContainsFunc(out, func(o mentioned) bool { return o.Type == m.Type && strings.EqualFold(o.Name, m.Name) }) {
			out = append(out, m)
		}
	}
	return out
}

// Unavailable is why a model or an embedder failed that may succeed later.
type Unavailable struct{ Reason string }

func (e *Unavailable) Error() string { return e.Reason }

func unavailable(model string, err error) error {
	if failed, ok := errors.AsType[*llm.Error](err); ok {
		return &Unavailable{fmt.Sprintf("the model %s failed: %s", model, failed.Message)}
	}
	return err
}
