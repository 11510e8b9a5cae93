package event

// Passage is a part of a document that was found for a message or a tool call.
type Passage struct {
	// ID identifies the chunk: its document, the revision and its index.
	ID         string `json:"id" doc:"The id of the passage"`
	Document   string `json:"document" doc:"The id of the document"`
	Collection string `json:"collection" doc:"The collection of the document"`
	Source     string `json:"source" doc:"The URL or the path of the document"`
	Title      string `json:"title,omitempty" doc:"The title of the document"`

	// Path is the headings above the passage.
	Path []string `json:"path,omitempty" doc:"The headings above the passage, the highest first"`

	// Page of the document on which the passage begins. 0 = it has no pages.
	Page int `json:"page,omitempty" doc:"The page on which the passage begins, from 1"`

	// Index is the place of the passage in its document, from 0.
	Index int    `json:"index" doc:"The place of the passage in its document, from 0. The next passage has the next index"`
	Text  string `json:"text" doc:"The text of the passage"`

	// Context is what a model has written to place the passage in its document. It is no part of the document.
	Context string `json:"context,omitempty" doc:"What a model has written to place the passage in its document. It is no part of the document"`

	// Score is the sum of 1/(60+rank) over both searches. The ranks are 1 for the best hit, and 0 if the search did not find it.
	Score      float64 `json:"score,omitempty" doc:"How well it fits: the sum of 1/(60+rank) over both searches"`
	TextRank   int     `json:"textRank,omitempty" doc:"Its rank by words, 1 is the best. Left out: not found by words"`
	VectorRank int     `json:"vectorRank,omitempty" doc:"Its rank by similarity of vectors. Left out: not found by vectors"`

	// RerankRank is the rank by the reranking model, 1 for the best; 0 = it did not rank the passage. RerankScore is the score that
	// decided, of models that give one; it compares passages of one search only.
	RerankRank  int      `json:"rerankRank,omitempty" doc:"Its rank by the reranking model, 1 is the best. Left out: not ranked by it"`
	RerankScore *float64 `json:"rerankScore,omitempty" doc:"The score of the reranking model, if it gives one. It compares passages of one search only"`
}

// Retrieval is the payload of a "retrieval" record: what an agent was given for the message that it answers. The number of a
// passage, by which a reply cites it, is its place in Passages, from 1.
type Retrieval struct {
	Agent string `json:"agent" doc:"The agent"`

	// MessageID is the first reply of the run.
	MessageID string    `json:"messageId" doc:"The first reply of the agent's run"`
	Passages  []Passage `json:"passages" nullable:"false" doc:"The passages, the best first. A reply cites them by their place, from 1"`
	Warning   string    `json:"warning,omitempty" doc:"Why vectors were not searched, or why the reranking model did not order the passages"`

	// Facts are about the people and things that the message names.
	Facts []Fact `json:"facts,omitempty" doc:"What is known about the people and things that the message names"`
}

// Fact is what is known about a person or a thing.
type Fact struct {
	Entity string `json:"entity" doc:"The id of the entity"`
	Name   string `json:"name" doc:"Its name"`
	Type   string `json:"type" doc:"What it is, such as person"`
	Text   string `json:"text" doc:"What earlier messages say about it"`
}
