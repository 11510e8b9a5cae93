package event

import "encoding/json"

// MetadataContext is the key in the metadata of a message for what the application of its sender knows, as a list
// of [ContextEntry]. It is the only metadata that models see, in the turn of the message.
const MetadataContext = "threadmill.context"

// ContextEntry is a part of the context of a message.
type ContextEntry struct {
	// What the value is.
	Description string `json:"description"`

	// The value, as text or JSON.
	Value string `json:"value"`
}

// ContextOf returns the context of a message. A value of another form is none.
func ContextOf(m Message) []ContextEntry {
	value, ok := m.Metadata[MetadataContext]
	if !ok {
		return nil
	}
	if entries, ok := value.([]ContextEntry); ok {
		return entries
	}
	var out []ContextEntry
	if raw, err := json.Marshal(value); err != nil || json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}
