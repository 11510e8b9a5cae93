package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/gate"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/telemetry"
)

// replayOptions are the flags of the command replay.
type replayOptions struct {
	options

	sample int
	within time.Duration
	json   bool
}

// addReplay adds the command that replays histories with the workflows, hooks and rules of this program.
func addReplay(root *cobra.Command, cfg Config) error {
	o := &replayOptions{}
	cmd := &cobra.Command{
		Use:   "replay [folder]...",
		Short: "Replay histories with this program, before it gets threads",
		Long: `Replay histories with the workflows, hooks and rules of this program, before it gets threads.

Without folders, it replays a sample of the workflows that run on the task queue: threads of all ages,
the longest ones, those that wait for approval, and some of each further type. Nothing is changed. A
folder has histories as .json files, as temporal workflow show --output json prints them.

The exit code is 1 if a history cannot be replayed. Runs that are pinned to a build of the workers are
replayed too, and do not count: they stay on their build.`,
		RunE: func(cmd *cobra.Command, folders []string) error {
			return o.run(cmd, cfg, folders)
		},
	}
	f := cmd.Flags()
	o.register(f, slog.LevelError)
	f.IntVar(&o.sample, "sample", 20, "how many running workflows of each kind are replayed")
	f.DurationVar(&o.within, "within", 10*time.Minute, "stop after this time, with what was replayed until then")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	root.AddCommand(cmd)
	root.CompletionOptions.DisableDefaultCmd = true
	return addFlags(cmd, cfg.Flags)
}

// errNotReplayed ends the program with exit code 1.
var errNotReplayed = errors.New("histories cannot be replayed: do not give this program their threads")

func (o *replayOptions) run(cmd *cobra.Command, application Config, folders []string) error {
	if o.sample < 1 || o.sample > 1000 {
		return program.Usagef("--sample: %d must be 1 to 1000", o.sample)
	}
	o.roles, o.namespace = []string{roleWorker}, signals.DefaultNamespace
	log, err := program.NewLogger(cmd.ErrOrStderr(), o.logFormat, o.logLevel)
	if err != nil {
		return err
	}
	cfg, err := declare(application, o.options, log)
	if err != nil {
		return err
	}
	if _, err := load(o.options, &cfg); err != nil {
		return err
	}
	replayer, err := o.replayer(application, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.within)
	defer cancel()
	report := &gate.Report{}
	g := gate.Gate{Replayer: replayer, Each: func(r gate.Result) {
		report.Add(r)
		if !o.json {
			show(cmd.OutOrStdout(), r)
		}
	}}
	err = o.replay(ctx, application, cfg, g, folders)
	if late := ctx.Err() != nil && cmd.Context().Err() == nil; err != nil && !late {
		return err
	} else if late {
		fmt.Fprintf(cmd.ErrOrStderr(), "stopped after %s: raise --within to replay more\n", o.within)
	}
	return conclude(cmd.OutOrStdout(), report, o.json)
}

// replayer has the converters of the connection.
func (o *replayOptions) replayer(application Config, cfg threadmill.Config) (worker.WorkflowReplayer, error) {
	opts, err := clientOptions(application, o.profile)
	if err != nil {
		return nil, err
	}
	replay := converters(opts)
	// A busy machine may pause for longer than the limit of a second.
	replay.DisableDeadlockDetection = true
	return threadmill.NewReplayer(cfg, replay)
}

func (o *replayOptions) replay(ctx context.Context, application Config, cfg threadmill.Config, g gate.Gate, folders []string) error {
	for _, folder := range folders {
		if err := g.Files(ctx, folder); err != nil {
			return err
		}
	}
	if len(folders) > 0 {
		return nil
	}
	temporal := cfg.Temporal
	if temporal == nil {
		c, _, err := dial(ctx, application, o.profile, telemetry.Config{}, cfg.Logger)
		if err != nil {
			return err
		}
		defer c.Close()
		temporal = c
	}
	return g.Live(ctx, gate.Live{Client: temporal, TaskQueue: cfg.TaskQueue, Sample: o.sample})
}

// show prints a result as a line, and what to do.
func show(w io.Writer, r gate.Result) {
	status := "ok"
	switch {
	case r.Error != "" && r.Pinned():
		status = "pinned"
	case r.Error != "":
		status = "failed"
	}
	fmt.Fprintf(w, "%-7s %-9s %s · %d events · %s\n", status, r.Type, r.Workflow, r.Events, r.Why)
	switch status {
	case "failed":
		fmt.Fprintf(w, "        %s\n        → %s\n", r.Error, r.Advice)
	case "pinned":
		fmt.Fprintf(w, "        it stays on build %s; here: %s\n", r.Build, r.Error)
	}
}

// conclude prints the result, and returns an error if this program must not have the threads.
func conclude(w io.Writer, report *gate.Report, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		if err := out.Encode(report); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(w, "\n%s\n", report.Summary())
	}
	if len(report.Failed) > 0 {
		return errNotReplayed
	}
	return nil
}
