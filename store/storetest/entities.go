package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// entities are the tests of [store.Entities].
var entities = []suiteTest{
	{"entities: extractions are queued once, the oldest first", ofEntities(testExtractionsQueued)},
	{"entities: extractions of namespaces", ofEntities(testExtractionNamespaces)},
	{"entities: extractions are queued by appends", testExtractionsAppended},
	{"entities: extractions are part of an append", testExtractionsAtomic},
	{"entities: an extraction is ended once", ofEntities(testExtractionEnded)},
	{"entities: what was found is all or nothing", ofEntities(testFoundRefused)},
	{"entities: what was found is kept as it was given", ofEntities(testFoundKept)},
	{"entities: what was found before stays", ofEntities(testFoundAgain)},
	{"entities: what refers to nothing is left out", ofEntities(testFoundNothing)},
	{"entities: long and odd texts are cut", ofEntities(testFoundCut)},
	{"entities: more than a text can have are left out", ofEntities(testFoundMany)},
	{"entities: descriptions are kept once, the newest", ofEntities(testDescriptions)},

	{"entities: merges form chains and can be undone", ofEntities(testMergeChain)},
	{"entities: merges are of two roots", ofEntities(testMergeRefused)},
	{"entities: merges are found with what is new", ofEntities(testMergeFound)},
	{"entities: merges that were found are of roots", ofEntities(testMergeFoundLate)},
	{"entities: merges are listed, undone ones too", ofEntities(testMergeList)},
	{"entities: merges again after they were undone", ofEntities(testMergeAgain)},
	{"entities: mentions of a merged entity count for its root", ofEntities(testMergeMentions)},

	{"entities: pages by mentions", ofEntities(testEntityPages)},
	{"entities: page limits", ofEntities(testEntityLimits)},
	{"entities: search and types", ofEntities(testEntitySearch)},
	{"entities: names whatever their case", ofEntities(testEntitiesNamed)},
	{"entities: mention pages", ofEntities(testMentionPages)},
	{"entities: relations are of roots", ofEntities(testRelations)},
	{"entities: similar ones by their vectors", ofEntities(testSimilar)},
	{"entities: similar ones have their roots", ofEntities(testSimilarRoots)},
	{"entities: vectors of any length", ofEntities(testSimilarVectors)},
	{"entities: names get vectors of another embedder", ofEntities(testEntityVectors)},
	{"entities: vectors that are refused", ofEntities(testEntityVectorsRefused)},

	{"entities: what is deleted is gone", ofEntities(testEntityDeleted)},
	{"entities: namespaces keep apart", ofEntities(testEntityNamespaces)},
	{"entities: names that cannot be stored find nothing", ofEntities(testEntityOddNames)},
	{"entities: an ended context changes nothing", ofEntities(testEntityEndedContext)},

	{"entities: extractions ended at once are ended once", ofEntities(testEndedAtOnce)},
	{"entities: mentions at once are counted", ofEntities(testMentionsAtOnce)},
	{"entities: merges in opposite directions at once", ofEntities(testMergesAtOnce)},
	{"entities: merges, undone and deleted at once", ofEntities(testChangesAtOnce)},
	{"entities: extractions appended at once are queued once", testExtractionsAppendedAtOnce},
}

func ofEntities(run func(t *testing.T, e store.Entities)) func(*testing.T, whole) {
	return func(t *testing.T, s whole) { run(t, s) }
}

// noon is when texts of tests are of.
var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func minute(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

func extraction(id string, at time.Time) store.Extraction {
	return store.Extraction{
		ID: id, ThreadID: "t1", EventID: "e-" + id, Content: "text of " + id, SourceType: "message", SourceID: "m-" + id, QueuedAt: at,
	}
}

func queueExtraction(t *testing.T, e store.Entities, namespace string, x store.Extraction) {
	t.Helper()
	require.NoError(t, e.QueueExtraction(t.Context(), namespace, x))
}

func extractions(t *testing.T, e store.Entities, namespace string) []store.Extraction {
	t.Helper()
	found, err := e.Extractions(t.Context(), namespace, 0)
	require.NoError(t, err)
	return found
}

func queued(t *testing.T, e store.Entities, namespace string) []string {
	t.Helper()
	ids := []string{}
	for _, x := range extractions(t, e, namespace) {
		ids = append(ids, x.ID)
	}
	return ids
}

func extractionNamespaces(t *testing.T, e store.Entities) []string {
	t.Helper()
	found, err := e.ExtractionNamespaces(t.Context())
	require.NoError(t, err)
	return found
}

// endExtraction queues an extraction, and ends it.
func endExtraction(t *testing.T, e store.Entities, namespace, id string, found store.EntitiesFound) {
	t.Helper()
	queueExtraction(t, e, namespace, extraction(id, noon))
	ended, err := e.EndExtraction(t.Context(), namespace, id, found)
	require.NoError(t, err)
	require.True(t, ended)
}

func newEntity(id, name string) store.NewEntity {
	return store.NewEntity{ID: id, Name: name, Type: "person", Description: "about " + id}
}

func mention(entity, source string, at time.Time) store.Mention {
	return store.Mention{
		EntityID: entity, Name: "name in " + source, ThreadID: "t1", SourceType: "message", SourceID: source, Text: "text of " + source, At: at,
	}
}

// mentions are n mentions of an entity, one each minute.
func mentions(entity string, n int) []store.Mention {
	all := make([]store.Mention, n)
	for i := range all {
		all[i] = mention(entity, fmt.Sprintf("%s-%02d", entity, i+1), minute(i+1))
	}
	return all
}

// meet stores entities with names like their ids, each with a number of mentions.
func meet(t *testing.T, e store.Entities, namespace string, counts map[string]int) {
	t.Helper()
	var found store.EntitiesFound
	for id, n := range counts {
		found.New = append(found.New, newEntity(id, "Name "+id))
		found.Mentions = append(found.Mentions, mentions(id, n)...)
	}
	endExtraction(t, e, namespace, fmt.Sprint("meet", counts), found)
}

func entity(t *testing.T, e store.Entities, namespace, id string) store.Entity {
	t.Helper()
	found, err := e.Entity(t.Context(), namespace, id)
	require.NoError(t, err)
	return found
}

func requireNoEntity(t *testing.T, e store.Entities, namespace, id string) {
	t.Helper()
	_, err := e.Entity(t.Context(), namespace, id)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// entityIDs returns the ids of a page with their mentions.
func entityIDs(t *testing.T, e store.Entities, namespace string, page store.EntityPage) []string {
	t.Helper()
	found, err := e.Entities(t.Context(), namespace, page)
	require.NoError(t, err)
	return counted(found)
}

func counted(found []store.Entity) []string {
	all := []string{}
	for _, one := range found {
		all = append(all, fmt.Sprintf("%s %d", one.ID, one.Mentions))
	}
	return all
}

func named(t *testing.T, e store.Entities, namespace string, names ...string) []string {
	t.Helper()
	found, err := e.EntitiesNamed(t.Context(), namespace, names)
	require.NoError(t, err)
	return counted(found)
}

func mentionsOf(t *testing.T, e store.Entities, namespace, id string) []store.Mention {
	t.Helper()
	found, err := e.Mentions(t.Context(), namespace, id, store.MentionPage{Limit: store.MaxEntityPage})
	require.NoError(t, err)
	return found
}

func sources(found []store.Mention) []string {
	all := []string{}
	for _, m := range found {
		all = append(all, m.SourceID)
	}
	return all
}

// relations returns the relations of an entity as "from type to".
func relations(t *testing.T, e store.Entities, namespace, id string) []string {
	t.Helper()
	found, err := e.Relations(t.Context(), namespace, id)
	require.NoError(t, err)
	all := []string{}
	for _, r := range found {
		all = append(all, r.From+" "+r.Type+" "+r.To)
	}
	return all
}

// merging is a merge that a person decides.
func merging(id, from, into string, at time.Time) store.EntityMerge {
	return store.EntityMerge{ID: id, From: from, Into: into, By: "ann", At: at}
}

func merge(t *testing.T, e store.Entities, namespace string, m store.EntityMerge) store.EntityMerge {
	t.Helper()
	done, err := e.MergeEntities(t.Context(), namespace, m)
	require.NoError(t, err)
	return done
}

func undo(t *testing.T, e store.Entities, namespace, id, by string) store.EntityMerge {
	t.Helper()
	undone, err := e.UndoMerge(t.Context(), namespace, id, by)
	require.NoError(t, err)
	return undone
}

func mergesOf(t *testing.T, e store.Entities, namespace, id string) []store.EntityMerge {
	t.Helper()
	found, err := e.Merges(t.Context(), namespace, id)
	require.NoError(t, err)
	return found
}

func mergeIDs(t *testing.T, e store.Entities, namespace, id string) []string {
	t.Helper()
	all := []string{}
	for _, m := range mergesOf(t, e, namespace, id) {
		all = append(all, m.ID)
	}
	return all
}

func similar(t *testing.T, e store.Entities, namespace, typ, embedder string, limit int, vector ...float32) []store.SimilarEntity {
	t.Helper()
	found, err := e.SimilarEntities(t.Context(), namespace, typ, embedder, vector, limit)
	require.NoError(t, err)
	return found
}

func similarIDs(found []store.SimilarEntity) []string {
	all := []string{}
	for _, one := range found {
		all = append(all, one.ID)
	}
	return all
}

func testExtractionsQueued(t *testing.T, e store.Entities) {
	require.Empty(t, extractions(t, e, ns))
	late, early := extraction("a", start.Add(time.Hour)), extraction("b", start)
	queueExtraction(t, e, ns, late)
	queueExtraction(t, e, ns, early)
	other := extraction("b", start.Add(-time.Hour))
	other.Content, other.ThreadID = "another text", "t2"
	queueExtraction(t, e, ns, other)
	late.QueuedAt, early.QueuedAt = stamped(late.QueuedAt), stamped(early.QueuedAt)
	require.Equal(t, []store.Extraction{early, late}, extractions(t, e, ns), "an id is queued once")

	before := time.Now().Add(-time.Second)
	queueExtraction(t, e, ns, store.Extraction{ID: "c", SourceType: "event", SourceID: "s"})
	found := extractions(t, e, ns)
	require.Equal(t, []string{"b", "a", "c"}, queued(t, e, ns))
	require.WithinRange(t, found[2].QueuedAt, before, time.Now().Add(time.Second), "it is queued now")
	require.Equal(t, time.UTC, found[2].QueuedAt.Location())

	for i := range store.MaxExtractions {
		queueExtraction(t, e, ns, extraction(fmt.Sprintf("x%03d", i), start.Add(-time.Minute)))
	}
	require.Len(t, extractions(t, e, ns), store.MaxExtractions)
	some, err := e.Extractions(t.Context(), ns, 2)
	require.NoError(t, err)
	require.Equal(t, "x000", some[0].ID, "those of one time are in the order of their ids")
	require.Len(t, some, 2)
	all, err := e.Extractions(t.Context(), ns, 1000)
	require.NoError(t, err)
	require.Len(t, all, store.MaxExtractions)
}

// stamped is a time as stores return it.
func stamped(at time.Time) time.Time { return at.UTC().Truncate(time.Microsecond) }

func testExtractionNamespaces(t *testing.T, e store.Entities) {
	require.Empty(t, extractionNamespaces(t, e))
	for _, namespace := range []string{"b", "a", "c"} {
		queueExtraction(t, e, namespace, extraction("x", noon))
		queueExtraction(t, e, namespace, extraction("y", noon))
	}
	endExtraction(t, e, "c", "x", store.EntitiesFound{})
	endExtraction(t, e, "a", "x", store.EntitiesFound{})
	endExtraction(t, e, "a", "y", store.EntitiesFound{})
	require.Equal(t, []string{"b", "c"}, extractionNamespaces(t, e))
}

func testExtractionsAppended(t *testing.T, s whole) {
	given := extraction("x1", start)
	given.ThreadID = ""
	batch := store.Batch{Once: "b", Records: records("a", "b"), Extract: []store.Extraction{extraction("x2", start.Add(time.Hour)), given}}
	first := add(t, s, key, batch)
	require.Empty(t, batch.Extract[1].ThreadID, "what was given is left alone")
	given.ThreadID, given.QueuedAt = key.ThreadID, stamped(start)
	require.Equal(t, given, extractions(t, s, key.Namespace)[0])
	require.Equal(t, []string{"x1", "x2"}, queued(t, s, key.Namespace))

	require.Equal(t, first, add(t, s, key, batch))
	require.Equal(t, []string{"x1", "x2"}, queued(t, s, key.Namespace), "a retry queues nothing again")
	ended, err := s.EndExtraction(t.Context(), key.Namespace, "x1", store.EntitiesFound{})
	require.NoError(t, err)
	require.True(t, ended)
	row := thread(t, s, key)
	batch.Extract = append(batch.Extract, extraction("x3", start.Add(2*time.Hour)))
	require.Equal(t, first, add(t, s, key, batch))
	require.Equal(t, []string{"x2", "x3"}, queued(t, s, key.Namespace), "what was never queued is queued although the records are stored")
	require.Equal(t, row, thread(t, s, key), "the thread is as it was")

	batch.Once, batch.Extract = "", []store.Extraction{extraction("x1", start), extraction("x4", start.Add(3*time.Hour))}
	require.Equal(t, first, add(t, s, key, batch))
	require.Equal(t, []string{"x2", "x3", "x4"}, queued(t, s, key.Namespace))
	add(t, s, key, store.Batch{Extract: []store.Extraction{extraction("x5", start), extraction("x5", start)}})
	require.Equal(t, []string{"x5", "x2", "x3", "x4"}, queued(t, s, key.Namespace), "it needs no records")
}

func testExtractionsAtomic(t *testing.T, s whole) {
	for name, change := range map[string]func(b *store.Batch){
		"record":      func(b *store.Batch) { b.Records[0].Payload = []byte("{") },
		"no id":       func(b *store.Batch) { b.Extract[1].ID = "" },
		"odd id":      func(b *store.Batch) { b.Extract[1].ID = "\x00" },
		"long id":     func(b *store.Batch) { b.Extract[1].ID = strings.Repeat("x", 2000) },
		"no source":   func(b *store.Batch) { b.Extract[1].SourceID = "" },
		"odd thread":  func(b *store.Batch) { b.Extract[1].ThreadID = "\xff" },
		"odd event":   func(b *store.Batch) { b.Extract[1].EventID = "\xff" },
		"source type": func(b *store.Batch) { b.Extract[1].SourceType = "\xff" },
	} {
		batch := store.Batch{Records: records("a"), Extract: []store.Extraction{extraction("x", noon), extraction("y", noon)}}
		change(&batch)
		_, err := s.Append(t.Context(), key, batch)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	requireNoThread(t, s, key)
	require.Empty(t, extractions(t, s, key.Namespace))
}

func testExtractionEnded(t *testing.T, e store.Entities) {
	queueExtraction(t, e, ns, extraction("x", noon))
	queueExtraction(t, e, ns, extraction("y", noon))
	found := store.EntitiesFound{New: []store.NewEntity{newEntity("a", "Ann")}, Mentions: mentions("a", 2)}
	ended, err := e.EndExtraction(t.Context(), ns, "none", found)
	require.NoError(t, err)
	require.False(t, ended, "what is not queued cannot be ended")
	requireNoEntity(t, e, ns, "a")

	ended, err = e.EndExtraction(t.Context(), ns, "x", found)
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, []string{"y"}, queued(t, e, ns))
	ended, err = e.EndExtraction(t.Context(), ns, "x", store.EntitiesFound{New: []store.NewEntity{newEntity("b", "Bob")}})
	require.NoError(t, err)
	require.False(t, ended)
	requireNoEntity(t, e, ns, "b")
	queueExtraction(t, e, ns, extraction("x", noon))
	require.Equal(t, []string{"y"}, queued(t, e, ns), "what was ended is not queued again")
	require.Equal(t, 2, entity(t, e, ns, "a").Mentions)
}

func testFoundRefused(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"known": 1})
	queueExtraction(t, e, ns, extraction("x", noon))
	want := entity(t, e, ns, "known")
	for name, change := range map[string]func(f *store.EntitiesFound){
		"entity without id":    func(f *store.EntitiesFound) { f.New[1].ID = "" },
		"entity with NUL":      func(f *store.EntitiesFound) { f.New[1].ID = "b\x00" },
		"entity with long id":  func(f *store.EntitiesFound) { f.New[1].ID = strings.Repeat("b", 201) },
		"entity without name":  func(f *store.EntitiesFound) { f.New[1].Name = " " },
		"entity without type":  func(f *store.EntitiesFound) { f.New[1].Type = "" },
		"vector without model": func(f *store.EntitiesFound) { f.New[1].Vector = []float32{1} },
		"odd model":            func(f *store.EntitiesFound) { f.New[1].Vector, f.New[1].Embedder = []float32{1}, "\xff" },
		"large vector": func(f *store.EntitiesFound) {
			f.New[1].Vector, f.New[1].Embedder = make([]float32, store.MaxKnowledgeDimension+1), embedder
		},
		"mention without id":     func(f *store.EntitiesFound) { f.Mentions[0].EntityID = "" },
		"mention without source": func(f *store.EntitiesFound) { f.Mentions[0].SourceID = "" },
		"mention without type":   func(f *store.EntitiesFound) { f.Mentions[0].SourceType = "" },
		"mention of odd thread":  func(f *store.EntitiesFound) { f.Mentions[0].ThreadID = "\xff" },
		"relation without end":   func(f *store.EntitiesFound) { f.Relations[0].To = "" },
		"relation without type":  func(f *store.EntitiesFound) { f.Relations[0].Type = "" },
		"merge without id":       func(f *store.EntitiesFound) { f.Merges[0].ID = "" },
		"merge into itself":      func(f *store.EntitiesFound) { f.Merges[0].Into = f.Merges[0].From },
		"odd description":        func(f *store.EntitiesFound) { f.Described["\xff"] = "text" },
	} {
		found := store.EntitiesFound{
			New:       []store.NewEntity{newEntity("a", "Ann"), newEntity("b", "Bob")},
			Mentions:  []store.Mention{mention("known", "m", noon)},
			Relations: []store.Relation{{From: "a", To: "known", Type: store.RelatedTo}},
			Merges:    []store.EntityMerge{merging("m", "a", "known", noon)},
			Described: map[string]string{"known": "more"},
		}
		change(&found)
		ended, err := e.EndExtraction(t.Context(), ns, "x", found)
		require.ErrorIs(t, err, store.ErrInvalid, name)
		require.False(t, ended, name)
	}
	requireNoEntity(t, e, ns, "a")
	require.Equal(t, want, entity(t, e, ns, "known"))
	require.Equal(t, []string{"x"}, queued(t, e, ns))
}

func testFoundKept(t *testing.T, e store.Entities) {
	before := time.Now().Add(-time.Second)
	given := mention("a", "m1", start)
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		New:       []store.NewEntity{{ID: "a", Name: " Ann Ärmel ", Type: "Person", Description: "is tall"}, {ID: "b", Name: "Bob", Type: "person"}},
		Mentions:  []store.Mention{given, mention("a", "m2", start.Add(-time.Hour))},
		Relations: []store.Relation{{From: "a", To: "b", Type: "Knows", Reason: "they met", At: start}},
		Described: map[string]string{"b": "is small"},
	})
	a := entity(t, e, ns, "a")
	require.WithinRange(t, a.CreatedAt, before, time.Now().Add(time.Second))
	require.Equal(t, time.UTC, a.CreatedAt.Location())
	require.Equal(t, store.Entity{
		ID: "a", Name: "Ann Ärmel", Type: "person", Descriptions: []string{"is tall"}, Aliases: []string{},
		Mentions: 2, CreatedAt: a.CreatedAt, MentionedAt: stamped(start),
	}, a)
	b := entity(t, e, ns, "b")
	require.Equal(t, store.Entity{
		ID: "b", Name: "Bob", Type: "person", Descriptions: []string{"is small"}, Aliases: []string{}, CreatedAt: a.CreatedAt,
	}, b, "one that was never mentioned")
	all, err := e.Entities(t.Context(), ns, store.EntityPage{})
	require.NoError(t, err)
	require.Equal(t, []store.Entity{a, b}, all)
	found := mentionsOf(t, e, ns, "a")
	given.At = stamped(start)
	require.Equal(t, given, found[0])
	require.Len(t, found, 2)
	for _, id := range []string{"a", "b"} {
		related, err := e.Relations(t.Context(), ns, id)
		require.NoError(t, err)
		require.Equal(t, []store.Relation{
			{From: "a", FromName: "Ann Ärmel", To: "b", ToName: "Bob", Type: "knows", Reason: "they met", At: stamped(start)},
		}, related)
	}
}

func testFoundAgain(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 2})
	want, known := entity(t, e, ns, "a"), mentionsOf(t, e, ns, "a")
	again := mention("a", "a-01", minute(90))
	other := mention("a", "a-01", minute(3))
	other.SourceType = "document"
	twice := mention("a", "m9", minute(4))
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		New:      []store.NewEntity{{ID: "a", Name: "Another", Type: "organization", Description: "another"}},
		Mentions: []store.Mention{again, other, twice, mention("a", "m9", minute(99))},
	})
	got := entity(t, e, ns, "a")
	want.Mentions, want.MentionedAt = 4, minute(4)
	require.Equal(t, want, got, "an entity that exists is left as it is, and a source mentions it once")
	require.Equal(t, append([]store.Mention{twice, other}, known...), mentionsOf(t, e, ns, "a"))
	require.Empty(t, named(t, e, ns, "another"))

	relation := store.Relation{From: "a", To: "b", Type: store.RelatedTo, Reason: "one", At: noon}
	changed := relation
	changed.Reason = "other"
	endExtraction(t, e, ns, "y", store.EntitiesFound{New: []store.NewEntity{newEntity("b", "Bob")}, Relations: []store.Relation{relation, changed}})
	endExtraction(t, e, ns, "z", store.EntitiesFound{Relations: []store.Relation{changed}})
	related, err := e.Relations(t.Context(), ns, "a")
	require.NoError(t, err)
	require.Len(t, related, 1)
	require.Equal(t, "one", related[0].Reason)
}

func testFoundNothing(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1})
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		Mentions:  []store.Mention{mention("gone", "m", noon), mention("a", "m", noon)},
		Relations: []store.Relation{{From: "a", To: "gone", Type: "knows"}, {From: "gone", To: "a", Type: "knows"}, {From: "a", To: "a", Type: "knows"}},
		Merges:    []store.EntityMerge{merging("1", "a", "gone", noon), merging("2", "gone", "a", noon)},
		Described: map[string]string{"gone": "text", "a": "more"},
	})
	a := entity(t, e, ns, "a")
	require.Equal(t, 2, a.Mentions)
	require.Equal(t, []string{"about a", "more"}, a.Descriptions)
	require.Empty(t, mentionsOf(t, e, ns, "gone"))
	require.Empty(t, relations(t, e, ns, "a"))
	require.Empty(t, mergeIDs(t, e, ns, ""))
	requireNoEntity(t, e, ns, "gone")
	endExtraction(t, e, ns, "y", store.EntitiesFound{New: []store.NewEntity{newEntity("gone", "Back")}})
	require.Zero(t, entity(t, e, ns, "gone").Mentions)
}

func testFoundCut(t *testing.T, e store.Entities) {
	long := strings.Repeat("é", 70_000)
	x := extraction("x", noon)
	x.Content = "\x00\xff" + long
	queueExtraction(t, e, ns, x)
	content := extractions(t, e, ns)[0].Content
	require.True(t, strings.HasPrefix(content, "\uFFFD"), "as much as can be stored")
	requireCut(t, content, 64<<10)
	one := mention("a", "m", noon)
	one.Name, one.Text = long, "\x00"+long
	endExtraction(t, e, ns, "x", store.EntitiesFound{
		New:       []store.NewEntity{{ID: "a", Name: long, Type: "É" + long, Description: long}, newEntity("b", "B\x00\xffb")},
		Mentions:  []store.Mention{one},
		Relations: []store.Relation{{From: "a", To: "b", Type: long, Reason: long}},
		Described: map[string]string{"b": long},
		Merges:    []store.EntityMerge{{ID: "m", From: "b", Into: "a", By: long, Similarity: 7}},
	})
	a := entity(t, e, ns, "a")
	requireCut(t, a.Name, 200)
	requireCut(t, a.Type, 64)
	for _, d := range a.Descriptions {
		if strings.HasPrefix(d, "é") {
			requireCut(t, d, 1000)
		}
	}
	require.Equal(t, []string{"B\uFFFD\uFFFDb"}, a.Aliases)
	m := mentionsOf(t, e, ns, "a")[0]
	requireCut(t, m.Name, 200)
	requireCut(t, m.Text, 500)
	done := mergesOf(t, e, ns, "")[0]
	requireCut(t, done.By, 200)
	require.InDelta(t, 1, done.Similarity, 0)
	undo(t, e, ns, "m", long)
	requireCut(t, mergesOf(t, e, ns, "")[0].UndoneBy, 200)
	related, err := e.Relations(t.Context(), ns, "b")
	require.NoError(t, err)
	requireCut(t, related[0].Type, 64)
	requireCut(t, related[0].Reason, 500)
	require.Equal(t, []string{"a 1"}, named(t, e, ns, strings.ToUpper(long)), "names to be found are cut too")
	require.Equal(t, []string{"a 1"}, entityIDs(t, e, ns, store.EntityPage{Type: "É" + long}))
}

func requireCut(t *testing.T, s string, limit int) {
	t.Helper()
	require.True(t, len(s) <= limit && len(s) > limit-4, "it has %d bytes", len(s))
	require.True(t, store.Storable(s))
}

func testFoundMany(t *testing.T, e store.Entities) {
	found := store.EntitiesFound{Described: map[string]string{}}
	for i := range store.MaxFound + 20 {
		id := fmt.Sprintf("e%03d", i)
		found.New = append(found.New, newEntity(id, id))
		found.Mentions = append(found.Mentions, mention("e000", id, minute(i)))
		found.Relations = append(found.Relations, store.Relation{From: "e000", To: fmt.Sprintf("e%03d", i%50), Type: fmt.Sprint("type", i/50)})
		found.Described[id] = "more"
	}
	endExtraction(t, e, ns, "x", found)
	all, err := e.Entities(t.Context(), ns, store.EntityPage{Limit: store.MaxEntityPage})
	require.NoError(t, err)
	require.Len(t, all, store.MaxFound)
	require.Equal(t, store.MaxFound, all[0].Mentions)
	require.Len(t, mentionsOf(t, e, ns, "e000"), store.MaxFound)
	require.Len(t, relations(t, e, ns, "e000"), store.MaxFound-2, "none is related to itself")
	require.Len(t, entity(t, e, ns, "e099").Descriptions, 2)
}

func testDescriptions(t *testing.T, e store.Entities) {
	meet(t, e, ns, map[string]int{"a": 1, "b": 1})
	for i := range store.MaxDescriptions + 2 {
		endExtraction(t, e, ns, fmt.Sprint("x", i), store.EntitiesFound{Described: map[string]string{
			"a": fmt.Sprint("text ", i), "b": fmt.Sprint("text ", i/2), "gone": "text",
		}})
	}
	var want []string
	for i := 2; i < store.MaxDescriptions+2; i++ {
		want = append(want, fmt.Sprint("text ", i))
	}
	require.Equal(t, want, entity(t, e, ns, "a").Descriptions, "the newest, the oldest of them first")
	b := entity(t, e, ns, "b").Descriptions
	require.Len(t, b, 2+store.MaxDescriptions/2, "each once")
	require.Equal(t, "about b", b[0])
	merge(t, e, ns, merging("m", "b", "a", noon))
	both := entity(t, e, ns, "a").Descriptions
	require.Len(t, both, store.MaxDescriptions)
	require.Len(t, distinctTexts(both), store.MaxDescriptions)
	require.Equal(t, want[len(want)-1], both[len(both)-1])
	undo(t, e, ns, "m", "ann")
	require.Equal(t, want, entity(t, e, ns, "a").Descriptions)
	require.Equal(t, b, entity(t, e, ns, "b").Descriptions)
}

func distinctTexts(texts []string) map[string]bool {
	all := map[string]bool{}
	for _, text := range texts {
		all[text] = true
	}
	return all
}
