package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
)

// group returns a command that has subcommands only. Without one of them it prints its help.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// jsonFlag adds --json to a command, which prints its result with [app.show].
func (a *app) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return cmd
}

// byFlag adds a flag with the acting person. Before the command runs, who completes its value.
func byFlag(cmd *cobra.Command, name string, by *string, usage string, who func(string) (string, error)) {
	cmd.Flags().StringVar(by, name, "", usage+" (default $USER)")
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		*by, err = who(*by)
		return err
	}
}

// show prints what a request returned: v with --json, otherwise text or, if that is empty, a
// warning that there is none.
func (a *app) show(v any, err error, text, none string, args ...any) error {
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(v)
	case text == "" && none != "":
		a.warn(none, args...)
	}
	_, err = fmt.Fprint(a.stdout, text)
	return err
}

// showOutcome prints the outcome of a request. A problem, if there is one, is the reason why it was
// rejected.
func (a *app) showOutcome(v any, err error, text, problem string) error {
	if _, refused := errors.AsType[*signals.DecisionError](err); refused && problem != "" {
		err = nil // the problem says it
	}
	if err != nil || a.json || problem == "" {
		err = a.show(v, err, line("%s", text), "")
	}
	if err == nil && problem != "" {
		return errors.New(problem)
	}
	return err
}

// line returns a line of output.
func line(format string, args ...any) string {
	return term.Line(fmt.Sprintf(format, args...)) + "\n"
}
