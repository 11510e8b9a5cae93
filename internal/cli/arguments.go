package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
)

// explainArguments makes cmd and its subcommands name arguments that are missing or too many.
func explainArguments(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		explainArguments(c)
	}
	cmd.Args = checkArguments
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

// parameter matches an argument in the usage of a command, and the value of a flag with its name.
var parameter = regexp.MustCompile(`(-\w )?(<\w+>|\[\w+\])`)

// checkArguments compares arguments with the usage of their command.
func checkArguments(cmd *cobra.Command, args []string) error {
	takes := slices.DeleteFunc(parameter.FindAllString(cmd.Use, -1), func(p string) bool { return strings.HasPrefix(p, "-") })
	name, form := strings.TrimPrefix(cmd.CommandPath(), "starter "), strings.Join(takes, " ")
	switch {
	case len(args) < len(takes) && strings.HasPrefix(takes[len(args)], "<"):
		return fmt.Errorf("%s takes %s: missing %s", name, form, takes[len(args)])
	case len(args) <= len(takes), strings.HasSuffix(cmd.Use, "…]"):
		return nil
	case cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	case len(takes) == 0:
		return fmt.Errorf("%s takes no arguments, got %s", name, quoted(args))
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

// jsonArgument is [app.argument] for JSON.
func (a *app) jsonArgument(what, text string) (json.RawMessage, error) {
	text, err := a.argument(what, text)
	if err != nil {
		return nil, err
	}
	return parseJSON(what, text)
}

// parseJSON leaves text that is too long to the check of its size.
func parseJSON(what, text string) (json.RawMessage, error) {
	if !json.Valid([]byte(text)) && len(text) <= signals.MaxPayload {
		return nil, usagef("the %s is not JSON (text needs quotes)", what)
	}
	return json.RawMessage(text), nil
}

// pairs parses key=value flags. The format of the error has a place for the wrong flag.
func pairs(flags []string, format string, unique bool) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range flags {
		key, value, ok := strings.Cut(pair, "=")
		if _, twice := out[key]; !ok || key == "" || unique && twice {
			return nil, usagef(format, pair)
		}
		out[key] = value
	}
	return out, nil
}

// metadata sets out, which is a map or a struct, from the flags --metadata.
func metadata(flags []string, out any) error {
	fields, err := pairs(flags, "--metadata is %q, must be key=value", false)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}
