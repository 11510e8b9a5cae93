package store

import (
	"encoding/json"
	"strings"
)

// Pattern returns a pattern of LIKE, with the backslash as its escape character, for what contains
// the text.
func Pattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text) + "%"
}

// JSONPattern is [Pattern] for texts within JSON.
func JSONPattern(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("store: a text has no JSON form: " + err.Error())
	}
	return Pattern(string(quoted[1 : len(quoted)-1]))
}
