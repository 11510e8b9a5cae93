package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
)

// offline is a model that understands nothing. As "finder", it recognizes names from a list; as
// "assistant", it repeats what it is told about people; and its vectors count letters.
type offline struct{ *scripted.Model }

func newOffline() offline {
	return offline{scripted.New(
		scripted.Answer(func(req llm.Request) scripted.Reply {
			return scripted.Say(found(req.Messages[len(req.Messages)-1].Content))
		}).For("finder"),
		scripted.Answer(func(req llm.Request) scripted.Reply {
			if n := len(req.Messages); strings.HasSuffix(req.Messages[n-1].Content, "?") {
				return scripted.Say(recall(req.Messages[n-2].Content))
			}
			return scripted.Say("Noted.")
		}),
	)}
}

// names are the names that the finder recognizes, with their types.
var names = []struct{ name, typ string }{
	{"Mira Stone", "person"}, {"Mora Stein", "person"}, {"Halden", "project"},
}

// found returns the names in a text, in the form that finders of entities are asked for. What a sentence says about the name at
// its beginning describes it.
func found(text string) string {
	type entity struct {
		Name        string `json:"name"`
		Type        string `json:"type"`
		Description string `json:"description"`
	}
	entities := []entity{}
	for _, n := range names {
		if !strings.Contains(text, n.name) {
			continue
		}
		e := entity{Name: n.name, Type: n.typ}
		for sentence := range strings.SplitSeq(text, ". ") {
			if said, ok := strings.CutPrefix(sentence, n.name+" "); ok {
				e.Description = said
			}
		}
		entities = append(entities, e)
	}
	raw, _ := json.Marshal(map[string]any{"entities": entities}) // has always a JSON form
	return string(raw)
}

// fact is a fact as models are given it: the name, the type, and what is known, of which the sentences of other threads come last.
var fact = regexp.MustCompile(`(?m)^- (.+?) \(\w+\): (.+?); on \S+ somebody wrote: (".+?")`)

// recall repeats what was found for a question. It precedes the question.
func recall(given string) string {
	var said []string
	for _, f := range fact.FindAllStringSubmatch(given, -1) {
		said = append(said, f[1]+" "+f[2]+". Somebody wrote: "+f[3])
	}
	if len(said) == 0 {
		return "I do not know."
	}
	return strings.Join(said, "\n")
}

// Embed implements [llm.Embedder]. A vector counts the letters of a text, so that anagrams are the same to it.
func (m offline) Embed(_ context.Context, req llm.EmbedRequest) (llm.Embeddings, error) {
	var out llm.Embeddings
	for _, text := range req.Texts {
		vector := make([]float32, 27) // the last one is for all other characters
		for _, letter := range strings.ToLower(text) {
			if letter < 'a' || letter > 'z' {
				vector[26] = 1
				continue
			}
			vector[letter-'a']++
		}
		out.Vectors = append(out.Vectors, vector)
	}
	return out, nil
}
