package signals

import (
	"encoding/json"
	"strings"

	"github.com/threadmill/threadmill/event"
)

// RAGSender is the sender of the message that announces the end of an ingestion in the thread that asked for it.
const RAGSender = "RAG"

// Ingestion is the payload of an event of type "rag_ingest", and the arguments of the tool ingest_document.
type Ingestion struct {
	// Source is the address of the document or, with Text, any name for it.
	Source string `json:"source"`

	// Collection groups documents. Default "default". Namespace is another name for it; a document belongs to the
	// namespace of the thread in any case.
	Collection string `json:"collection,omitempty"`
	Namespace  string `json:"namespace,omitempty"`

	Title    string          `json:"title,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`

	// Text is the content of the document, as Markdown. Empty = it is fetched from Source.
	Text string `json:"text,omitempty"`

	// ForceReindex ingests the document even if it has not changed.
	ForceReindex bool `json:"forceReindex,omitempty"`
}

// Validate reports the first invalid field.
func (i Ingestion) Validate() error {
	switch {
	case strings.TrimSpace(i.Source) == "":
		return event.FieldErrorf("source", "is required: the address of the document, or a name for its text")
	case i.Collection != "" && i.Namespace != "" && i.Collection != i.Namespace:
		return event.FieldErrorf("collection", "is %q and namespace is %q: both are names of the same, give one of them", i.Collection, i.Namespace)
	}
	if i.Collection != "" && ValidateID("collection", i.Collection) != nil {
		return ValidateID("collection", i.Collection)
	}
	if i.Namespace != "" && ValidateID("namespace", i.Namespace) != nil {
		return ValidateID("namespace", i.Namespace)
	}
	var about struct{ Title string }
	if len(i.Metadata) > 0 && json.Unmarshal(i.Metadata, &about) != nil {
		return event.FieldErrorf("metadata", "must be an object; its title, if it has one, must be a text")
	}
	return nil
}

// Named returns the collection and the title, wherever the payload has them.
func (i Ingestion) Named() (collection, title string) {
	var about struct{ Title string }
	if len(i.Metadata) > 0 {
		_ = json.Unmarshal(i.Metadata, &about) // Validate has done it before
	}
	collection, title = i.Collection, i.Title
	if collection == "" {
		collection = i.Namespace
	}
	if title == "" {
		title = about.Title
	}
	return collection, title
}
