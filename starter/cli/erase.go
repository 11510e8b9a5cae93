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

func (a eraseCommands) erasuresCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "erasures [thread]",
		Short: "Show the receipts of erasures",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
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
	out.WriteString("Not reached:\n")
	for _, r := range e.Remains {
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
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			out := io.Writer(a.stdout)
			if file != "" {
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					return usageError{fmt.Errorf("--file: %w", err)}
				}
				defer func() { err = errors.Join(err, f.Close()) }()
				out = f
			}
			return a.withAPI(cmd.Context(), args[0], func(ctx context.Context, client *api.Client) error {
				ends := &lastLine{to: out}
				if err := client.Export(ctx, args[0], ends); err != nil {
					return err
				}
				return ends.check()
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "write to this file, which must not exist (default: the standard output)")
	return cmd
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
