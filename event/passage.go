package event

// Passage is a part of a document that was found for a message or a tool call.
type Passage struct {
	// The id of the passage.
	//
	// It identifies the chunk: its document, the revision and its index.
	ID string `json:"id"`

	// The id of the document.
	Document string `json:"document"`

	// The collection of the document.
	Collection string `json:"collection"`

	// The URL or the path of the document.
	Source string `json:"source"`

	// The title of the document.
	Title string `json:"title,omitempty"`

	// The headings above the passage, the highest first.
	Path []string `json:"path,omitempty"`

	// The page on which the passage begins, from 1.
	//
	// 0 = the document has no pages.
	Page int `json:"page,omitempty"`

	// The place of the passage in its document, from 0. The next passage has the next index.
	Index int `json:"index"`

	// The text of the passage.
	Text string `json:"text"`

	// What a model has written to place the passage in its document. It is no part of the document.
	Context string `json:"context,omitempty"`

	// How well it fits: the sum of 1/(60+rank) over both searches.
	//
	// The ranks are 1 for the best hit, and 0 if the search did not find it.
	Score float64 `json:"score,omitempty"`

	// Its rank by words, 1 is the best. Left out: not found by words.
	TextRank int `json:"textRank,omitempty"`

	// Its rank by similarity of vectors. Left out: not found by vectors.
	VectorRank int `json:"vectorRank,omitempty"`

	// Its rank by the reranking model, 1 is the best. Left out: not ranked by it.
	//
	// 0 = the model did not rank the passage.
	RerankRank int `json:"rerankRank,omitempty"`

	// The score of the reranking model, if it gives one. It compares passages of one search only.
	RerankScore *float64 `json:"rerankScore,omitempty"`
}

// Retrieval is the payload of a "retrieval" record: what an agent was given for the message that it answers. The number of a
// passage, by which a reply cites it, is its place in Passages, from 1.
type Retrieval struct {
	// The agent.
	Agent string `json:"agent"`

	// The first reply of the agent's run.
	MessageID string `json:"messageId"`

	// The passages, the best first. A reply cites them by their place, from 1.
	Passages []Passage `json:"passages" nullable:"false"`

	// Why vectors were not searched, or why the reranking model did not order the passages.
	Warning string `json:"warning,omitempty"`

	// What is known about the people and things that the message names.
	Facts []Fact `json:"facts,omitempty"`
}

// Fact is what is known about a person or a thing.
type Fact struct {
	// The id of the entity.
	Entity string `json:"entity"`

	// Its name.
	Name string `json:"name"`

	// What it is, such as person.
	Type string `json:"type"`

	// What earlier messages say about it.
	Text string `json:"text"`
}
