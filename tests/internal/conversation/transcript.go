package conversation

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Speakers beside people and agents.
const (
	// World reports what happens around the thread.
	World = "world"
	// Namer is the title model.
	Namer = "namer"
)

// Transcript is a conversation in a file.
type Transcript struct {
	People    []string `yaml:"people"`
	Agents    []Agent  `yaml:"agents"`
	TurnLimit int      `yaml:"turnLimit"`
	Lines     []Line   `yaml:"lines"`
}

// Agent is an agent of a conversation.
type Agent struct {
	Name         string   `yaml:"name"`
	Instructions string   `yaml:"instructions"`
	Tools        []string `yaml:"tools"`
}

// Line is the next action of a speaker. In the file it is a mapping of one entry, from the speaker
// to a text or, as a mapping, another action. Agents and the namer only have texts, agents in the
// language of llmtest: "use <tool> <json>" calls a tool.
type Line struct {
	Who string
	Deed
}

// Deed is one of: a text, or the tool whose pending call is approved, denied, or run by a client.
type Deed struct {
	Says     string `yaml:"says"`
	Approves string `yaml:"approves"`
	Denies   string `yaml:"denies"`
	Answers  string `yaml:"answers"`

	// Scope of an approval, Reason of a decision, Output of a result.
	Scope  string `yaml:"scope"`
	Reason string `yaml:"reason"`
	Output string `yaml:"output"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *Line) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode || len(node.Content) != 2 {
		return fmt.Errorf("line %d: must be one entry, who: what", node.Line)
	}
	who, what := node.Content[0], node.Content[1]
	l.Who = who.Value
	if what.Kind == yaml.ScalarNode {
		l.Says = what.Value
	} else if err := what.Decode(&l.Deed); err != nil {
		return err
	}
	deeds := slices.DeleteFunc([]string{l.Says, l.Approves, l.Denies, l.Answers}, func(s string) bool { return s == "" })
	if len(deeds) != 1 {
		return fmt.Errorf("line %d: %s must do one thing: say, approve, deny or answer something", node.Line, l.Who)
	}
	return nil
}

// Read reads a transcript.
func Read(path string) (*Transcript, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	var t Transcript
	if err := decoder.Decode(&t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var problems []error
	for _, l := range t.Lines {
		switch {
		case l.Who == World, l.Who == Namer, t.isAgent(l.Who):
			if l.Says == "" {
				problems = append(problems, fmt.Errorf("%s: %s can only say something", path, l.Who))
			}
		case !slices.Contains(t.People, l.Who):
			problems = append(problems, fmt.Errorf("%s: %q takes no part", path, l.Who))
		}
	}
	return &t, errors.Join(problems...)
}

// Names are the names of the agents.
func (t *Transcript) Names() []string {
	names := make([]string, len(t.Agents))
	for i, a := range t.Agents {
		names[i] = a.Name
	}
	return names
}

func (t *Transcript) isAgent(name string) bool { return slices.Contains(t.Names(), name) }
