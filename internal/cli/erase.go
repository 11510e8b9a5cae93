package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
)

// eraseCommands are the commands that erase and export threads.
type eraseCommands struct{ *app }

func (a eraseCommands) eraseCommand() *cobra.Command {
	var by string
	var sure bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "erase <thread>",
		Short: "Erase a thread for good, and print the receipt",
		Long: `Erase a thread for good, and print the receipt.

The thread, the threads of its sub-agents and all that was derived from them are deleted from
the store and from Temporal. The API needs the role admin for this. When --timeout is over, the
erasure goes on, and the same command waits for it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !sure {
				return usagef("nothing brings an erased thread back: confirm with --yes")
			}
			return a.withAPI(cmd.Context(), args[0], func(ctx context.Context, client *api.Client) error {
				var out signals.Erasure
				var err error
				for err == nil && out.FinishedAt.IsZero() {
					out, err = client.Erase(ctx, args[0], by)
				}
				return a.show(out, err, receipt(out), "")
			})
		},
	})
	cmd.Flags().BoolVar(&sure, "yes", false, "erase it")
	byFlag(cmd, "by", &by, "who asks for it", a.apiActor)
	return cmd
}

func (a eraseCommands) erasePersonCommand() *cobra.Command {
	var by string
	var terms []string
	var sure bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "erase-person <name>",
		Short: "Erase a person in all threads, and print the receipt",
		Long: `Erase a person in all threads, and print the receipt.

Threads in which nobody else wrote or decided are erased. In the others, what the person said,
what came of it and each --term are replaced by [erased], and the name by a pseudonym. Turns in
progress that have something of it are interrupted. The API needs the role admin for this. When
--timeout is over, the erasure goes on, and the same command waits for it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !sure {
				return usagef("nothing brings back what a person said: confirm with --yes")
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				var out signals.PersonErasure
				var err error
				told := map[string]bool{}
				for err == nil && out.FinishedAt.IsZero() {
					out, err = client.ErasePerson(ctx, args[0], terms, by)
					a.tellWaits(out, told)
				}
				return a.show(out, err, personReceipt(out), "")
			})
		},
	})
	cmd.Flags().BoolVar(&sure, "yes", false, "erase the person")
	termFlag(cmd, &terms)
	byFlag(cmd, "by", &by, "who asks for it", a.apiActor)
	return cmd
}

// tellWaits tells once what an erasure in progress waits for.
func (a eraseCommands) tellWaits(e signals.PersonErasure, told map[string]bool) {
	for _, w := range e.Waiting {
		if !told[w.ThreadID+w.Why] {
			told[w.ThreadID+w.Why] = true
			a.warn("erasure %s comes back to thread %s: %s", e.ID, w.ThreadID, w.Why)
		}
	}
}

// personReceipt returns the receipt of a person's erasure for people.
func personReceipt(e signals.PersonErasure) string {
	var out strings.Builder
	out.WriteString(line("Erased a person, now %s, asked for by %s at %s, finished at %s. The erasure is %s.",
		e.Pseudonym, e.By, e.RequestedAt.Format(time.DateTime), e.FinishedAt.Format(time.DateTime), e.ID))
	out.WriteString(line("Threads erased: %d. Threads in which the person was replaced: %d.", len(e.Erased), len(e.Forgot)))
	c := e.Counts
	out.WriteString(line("Replaced there: %d records, %d logs of tool calls. Deleted: %d runs of workflows, %d entities, %d schedules.",
		c.Records, c.ToolLogs, c.Runs, c.Entities, c.Schedules))
	return out.String() + remains(e.Remains)
}

func (a eraseCommands) erasuresCommand() *cobra.Command {
	var people bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "erasures [thread]",
		Short: "Show the receipts of erasures",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if people {
					all, err := client.PersonErasures(ctx)
					var text strings.Builder
					for _, e := range all {
						if e.FinishedAt.IsZero() {
							text.WriteString(line("in progress          %s  by %s", e.Pseudonym, e.By))
							for _, w := range e.Waiting {
								text.WriteString(line("  thread %s since %s: %s", w.ThreadID, w.Since.Format(time.DateTime), w.Why))
							}
							continue
						}
						text.WriteString(line("%s  %s  %d threads erased, replaced in %d, by %s", e.FinishedAt.Format(time.DateTime), e.Pseudonym, len(e.Erased), len(e.Forgot), e.By))
					}
					return a.show(map[string]any{"erasures": all}, err, text.String(), "nobody was erased")
				}
				if len(args) == 1 {
					e, err := client.Erasure(ctx, args[0])
					return a.show(e, err, receipt(e), "")
				}
				all, err := client.Erasures(ctx)
				var text strings.Builder
				for _, e := range all {
					text.WriteString(line("%s  %s  %d threads, %d records, by %s", e.FinishedAt.Format(time.DateTime), e.ThreadID, len(e.Threads), e.Erased.Records, e.By))
				}
				return a.show(map[string]any{"erasures": all}, err, text.String(), "nothing was erased")
			})
		},
	})
	cmd.Flags().BoolVar(&people, "people", false, "those of people, instead of threads")
	return cmd
}

// receipt returns a receipt for people.
func receipt(e signals.Erasure) string {
	var out strings.Builder
	out.WriteString(line("Erased %s, asked for by %s at %s, finished at %s.", strings.Join(e.Threads, ", "), e.By, e.RequestedAt.Format(time.DateTime), e.FinishedAt.Format(time.DateTime)))
	c := e.Erased
	out.WriteString(line("Deleted: %d records, %d logs of tool calls, %d runs of workflows, %d schedules, %d documents, %d mentions, %d queued texts.",
		c.Records, c.ToolLogs, c.Runs, c.Schedules, c.Documents, c.Mentions, c.Extractions))
	if e.Late > 0 {
		out.WriteString(line("Started again and erased again: %d times.", e.Late))
	}
	return out.String() + remains(e.Remains)
}

func remains(all []signals.ErasureRemain) string {
	var out strings.Builder
	out.WriteString("Not reached:\n")
	for _, r := range all {
		out.WriteString(line("- %s: %s", r.What, r.Why))
	}
	return out.String()
}

func (a eraseCommands) exportCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export <thread>",
		Short: "Write everything that belongs to a thread as JSON lines",
		Long: `Write everything that belongs to a thread, and to the threads of its sub-agents, as JSON lines.

The API needs the role operate for this. The last line has the kind end: without it, the export
is not complete.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writeLines(file, func(to io.Writer) error {
				return a.withAPI(cmd.Context(), args[0], func(ctx context.Context, client *api.Client) error { return client.Export(ctx, args[0], to) })
			})
		},
	}
	exportFile(cmd, &file)
	return cmd
}

func (a eraseCommands) exportPersonCommand() *cobra.Command {
	var file string
	var terms []string
	cmd := &cobra.Command{
		Use:   "export-person <name>",
		Short: "Write what all threads have of a person as JSON lines",
		Long: `Write what all threads have of a person as JSON lines: the messages and decisions of the
person, what came of them, and what has one of the terms.

The API needs the role admin for this. The last line has the kind end: without it, the export is
not complete.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.writeLines(file, func(to io.Writer) error {
				return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
					return client.ExportPerson(ctx, args[0], terms, to)
				})
			})
		},
	}
	exportFile(cmd, &file)
	termFlag(cmd, &terms)
	return cmd
}

func exportFile(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "file", "", "write to this file, which must not exist (default: the standard output)")
}

func termFlag(cmd *cobra.Command, terms *[]string) {
	cmd.Flags().StringArrayVar(terms, "term", nil, "a further word by which the person is known, such as a full name or an address; repeatable")
}

// writeLines writes an export to a new file or, without one, to the standard output.
func (a eraseCommands) writeLines(file string, export func(to io.Writer) error) (err error) {
	out := io.Writer(a.stdout)
	if file != "" {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return usageError{fmt.Errorf("--file: %w", err)}
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	ends := &lastLine{to: out}
	if err := export(ends); err != nil {
		return err
	}
	return ends.check()
}

// lastLine passes an export on, and keeps its last line.
type lastLine struct {
	to   io.Writer
	last []byte
}

// maxLast is more than the last line of an export has.
const maxLast = 4096

func (e *lastLine) Write(p []byte) (int, error) {
	e.last = append(e.last, p...)
	if n := len(e.last) - maxLast; n > 0 {
		e.last = append([]byte(nil), e.last[n:]...)
	}
	return e.to.Write(p)
}

func (e *lastLine) check() error {
	lines := bufio.NewScanner(bytes.NewReader(e.last))
	var end struct {
		Kind string `json:"kind"`
	}
	for lines.Scan() {
		end.Kind = ""
		_ = json.Unmarshal(lines.Bytes(), &end)
	}
	if end.Kind != "end" {
		return errors.New("the export is not complete: its last line is missing; export it again")
	}
	return nil
}
