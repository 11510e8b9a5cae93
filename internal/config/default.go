package config

import (
	"fmt"
	"strings"

	"github.com/threadmill/threadmill/agent"
)

// DefaultModel is OpenAI's model that [Default] uses.
const DefaultModel = "gpt-4.1-mini"

// DefaultInstructions are the instructions of [Default]'s agent.
const DefaultInstructions = `You are a helpful assistant. Answer in the language of the person who asks, briefly and to the point; say so when you do not know something.

You can run commands with shell_cmd, in a working directory on the server; a person is asked before each one. Use it when the answer depends on files or on what a program prints, not for what you know anyway. If a command is denied, do not try it again in another form: ask, or go on without it. Use current_time when the date or the time matters.`

// Default is the configuration without a file: one agent, "assistant", with the
// built-in tools. Its model is THREADMILL_MODEL (default [DefaultModel]) of OpenAI,
// or of what OPENAI_BASE_URL names, if that or OPENAI_API_KEY is set, and the
// offline stand-in otherwise. An error names the variable that is wrong.
func Default(getenv func(string) string) (*Config, error) {
	key, base := strings.TrimSpace(getenv(EnvAPIKey)), strings.TrimSpace(getenv(EnvBaseURL))
	model := strings.TrimSpace(getenv(EnvModel))
	c := &Config{Tools: Tools{Shell: Shell{Root: DefaultRoot}}}
	p := Provider{Name: OpenAI, Type: OpenAI, BaseURL: strings.TrimRight(base, "/"), APIKey: Secret(key)}
	switch {
	case key == "" && base == "" && model != "":
		return nil, fmt.Errorf("%s is %q, but neither %s nor %s is set: set one of them, or unset %[1]s to use the offline stand-in",
			EnvModel, model, EnvAPIKey, EnvBaseURL)
	case key == "" && base == "":
		p, model = Provider{Name: Demo, Type: Demo}, Demo
	case model == "":
		model = DefaultModel
	case base == "":
		// Elsewhere, a model may well be called openai/….
		model = strings.TrimPrefix(model, OpenAI+"/")
	}
	if base != "" {
		if problem := urlProblem(base); problem != "" {
			return nil, fmt.Errorf("%s %s", EnvBaseURL, problem)
		}
	}
	c.Models = []Provider{p}
	if p.Type == Demo {
		// It costs nothing. Whether to pay a provider for titles is for a file to say.
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
