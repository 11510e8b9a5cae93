package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/agent"
)

// DefaultModel is the OpenAI model of [Default].
const DefaultModel = "gpt-5.6-luna"

// DefaultInstructions are the instructions of the agent of [Default].
const DefaultInstructions = `You are a helpful assistant. Answer in the language of the person who asks, briefly and to the point; say so when you do not know something.

You can run commands with shell_cmd, in a working directory on the server; a person is asked before each one. Use it when the answer depends on files or on what a program prints, not for what you know anyway. If a command is denied, do not try it again in another form: ask, or go on without it. Use current_time when the date or the time matters.`

// Default returns the configuration without a file: one agent, "assistant", with the built-in
// tools. Its model is one of the first provider whose key or address is set: OpenAI
// (OPENAI_API_KEY, OPENAI_BASE_URL), Anthropic (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL) or Google
// (GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL). THREADMILL_MODEL names the model. Without a provider, it
// is the offline demo model. An error names the invalid variable.
func Default(getenv func(string) string) (*Config, error) {
	model := strings.TrimSpace(getenv(EnvModel))
	c := &Config{Tools: Tools{Shell: Shell{Root: DefaultRoot}}}
	p := Provider{Name: Demo, Type: Demo}
	for _, s := range services {
		key, base := strings.TrimSpace(getenv(s.key)), strings.TrimSpace(getenv(s.base))
		if s.cloud || key == "" && base == "" {
			continue
		}
		if problem := urlProblem(base); base != "" && problem != "" {
			return nil, fmt.Errorf("%s %s", s.base, problem)
		}
		p = Provider{Name: s.kind, Type: s.kind, BaseURL: strings.TrimRight(base, "/"), APIKey: Secret(key)}
		if base == "" {
			// At other addresses, the name of a model may begin with openai/.
			model = strings.TrimPrefix(model, s.kind+"/")
		}
		model = cmp.Or(model, s.model)
		if key != "" {
			c.Keys = map[string]string{s.kind: s.key}
		}
		break
	}
	switch {
	case p.Type == Demo && model != "":
		return nil, fmt.Errorf("%s is %q, but neither %s nor %s is set: set one of them, or unset %[1]s to use the offline stand-in",
			EnvModel, model, EnvAPIKey, EnvBaseURL)
	case p.Type == Demo:
		model = Demo
	}
	c.Models = []Provider{p}
	if p.Type == Demo {
		// The demo model's titles are free. Paid titles must be configured in a file.
		c.TitleModel = p.Name + "/" + model
	}
	c.Agents = agent.Fixed{{
		Name:         "assistant",
		Description:  "A general assistant that can run commands.",
		Instructions: DefaultInstructions,
		Model:        p.Name + "/" + model,
		Tools:        []string{ShellCmd, CurrentTime},
	}}
	return c, nil
}
