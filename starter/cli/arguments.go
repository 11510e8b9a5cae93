package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/term"
	"github.com/threadmill/threadmill/signals"
)

// explainArguments makes cmd and its subcommands name arguments that are missing or too many.
func explainArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		explainArguments(c)
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) == nil {
				return nil
			}
			if cmd.HasSubCommands() {
				return unknownCommand(cmd, args[0])
			}
			return wrongArguments(cmd, args)
		}
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	const distance = 2 // letters
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = distance
	}
	text := fmt.Sprintf("unknown command %q", strings.TrimPrefix(cmd.CommandPath()+" "+name, "starter "))
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, ", ") + "?"
	}
	return errors.New(text)
}

var parameter = regexp.MustCompile(`<\w+>|\[\w+\]`)

// wrongArguments returns the error for missing or extra arguments.
func wrongArguments(cmd *cobra.Command, args []string) error {
	takes := parameter.FindAllString(cmd.Use, -1)
	name := strings.TrimPrefix(cmd.CommandPath(), "starter ")
	if len(takes) == 0 {
		return fmt.Errorf("%s takes no arguments, got %s", name, quoted(args))
	}
	form := strings.Join(takes, " ")
	if len(args) < len(takes) {
		return fmt.Errorf("%s takes %s: missing %s", name, form, takes[len(args)])
	}
	return fmt.Errorf("%s takes %s: unexpected %s (text with spaces needs quotes)", name, form, quoted(args[len(takes):]))
}

func quoted(args []string) string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = `"` + term.Line(arg) + `"`
	}
	return strings.Join(out, " ")
}

// plain matches arguments that need no quotes in a shell.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord quotes an argument for a shell.
func shellWord(arg string) string {
	if plain.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// argument returns the text of an argument; "-" is stdin.
func (a *app) argument(what, text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	raw, err := io.ReadAll(io.LimitReader(a.stdin, signals.MaxPayload+1))
	if err != nil {
		return "", fmt.Errorf("reading the %s from stdin: %w", what, err)
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}

// pairs parses key=value flags of metadata.
func pairs(flags []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range flags {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("--metadata is %q, must be key=value", pair)
		}
		out[key] = value
	}
	return out, nil
}
