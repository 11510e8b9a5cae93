package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/internal/ops/deployment"
	"github.com/threadmill/threadmill/internal/ops/gate"
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
	from   string
	move   bool
}

// addReplay adds the command that replays histories with the workflows, hooks and rules of this program.
func addReplay(root *cobra.Command, cfg Config) {
	o := &replayOptions{}
	cmd := &cobra.Command{
		Use:   "replay [folder]...",
		Short: "Replay histories with this program, before it gets threads",
		Long: `Replay histories with the workflows, hooks and rules of this program, before it gets threads.

Without folders, it replays a sample of the workflows that run on the task queue: threads of all ages,
the longest ones, those that wait for approval, and some of each further type. Nothing is changed. A
folder has histories as .json files, as temporal workflow show --output json prints them.

With --from, it replays all threads on a build of the workers instead, such as one whose workers are gone.
With --move too, those that can be replayed move to the build of this program, --build, which must be the
current one and have workers, while no worker of --from polls; the others stay, and are named.

The exit code is 1 if a history cannot be replayed, or if --within ended the command before all were. Runs that are pinned to a build of the workers are
replayed too, and do not count: they stay on their build.`,
		RunE: func(cmd *cobra.Command, folders []string) error {
			return o.run(cmd, cfg, folders)
		},
	}
	f := cmd.Flags()
	o.register(f, cfg, slog.LevelError)
	f.IntVar(&o.sample, "sample", 20, "how many running workflows of each kind are replayed")
	f.DurationVar(&o.within, "within", 10*time.Minute, "stop after this time, with exit code 1")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.StringVar(&o.from, "from", "", "replay all threads on this build of the workers")
	f.BoolVar(&o.move, "move", false, "move the threads of --from that can be replayed to the build of this program")
	o.registerBuild(f)
	root.AddCommand(cmd)
	root.CompletionOptions.DisableDefaultCmd = true
	if err := addFlags(cmd, cfg.Flags); err != nil {
		// The other commands work. Of the flags, some have another meaning here, so none is parsed.
		cmd.DisableFlagParsing = true
		cmd.RunE = func(*cobra.Command, []string) error { return err }
	}
}

// errNotReplayed ends the program with exit code 1.
var errNotReplayed = errors.New("histories cannot be replayed: do not give this program their threads")

func (o *replayOptions) run(cmd *cobra.Command, application Config, folders []string) error {
	if o.sample < 1 || o.sample > 1000 {
		return program.Usagef("--sample: %d must be 1 to 1000", o.sample)
	}
	switch {
	case o.from != "" && cmd.Flags().Changed("sample"):
		return program.Usagef("--sample: omit it with --from, which replays all threads of the build")
	case o.from != "" && len(folders) > 0:
		return program.Usagef("--from: omit the folders, or this flag")
	case o.move && (o.from == "" || o.deployment(os.Getenv).Build == ""):
		return program.Usagef("--move: needs --from, the build that the threads leave, and --build, the build id of this program")
	}
	if err := o.deployment(os.Getenv).Validate(); err != nil {
		return program.Usagef("%w", err)
	}
	if err := signals.ValidateID("--namespace", o.namespace); err != nil {
		return program.Usagef("%w", err)
	}
	o.roles = []string{roleWorker}
	log, err := program.NewLogger(cmd.ErrOrStderr(), o.logFormat, o.logLevel)
	if err != nil {
		return err
	}
	cfg, api, err := declare(application, o.options, log)
	if err != nil {
		return err
	}
	if _, err := load(o.options, &cfg, &api); err != nil {
		return err
	}
	replayer, err := o.replayer(application, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), o.within)
	defer cancel()
	report := gate.NewReport()
	var replayed []deployment.Run
	g := gate.Gate{Replayer: replayer, From: o.from, Each: func(r gate.Result) {
		report.Add(r)
		if r.Error == "" {
			replayed = append(replayed, deployment.Run{Workflow: r.Workflow, ID: r.Run})
		}
		if !o.json {
			show(cmd.OutOrStdout(), r)
		}
	}}
	d, done, err := o.connect(ctx, application, cfg, folders)
	if err != nil {
		return err
	}
	defer done()
	err = o.replay(ctx, d, g, folders)
	late := func() bool { return err != nil && ctx.Err() != nil && cmd.Context().Err() == nil }
	switch report.Complete = err == nil; {
	case late():
		advice := "raise --within"
		if o.from == "" && len(folders) == 0 {
			advice += ", or lower --sample"
		}
		err = fmt.Errorf("not all histories were replayed within %s: %s", o.within, advice)
	case err != nil:
		return err
	case o.move:
		// What has moved is told, whatever comes of the rest.
		if err = o.moveAll(ctx, cmd.OutOrStdout(), d, replayed, report); late() {
			err = fmt.Errorf("not all threads took a step on build %s within %s, and those stay: see the log of its workers", cfg.Deployment.Build, o.within)
		}
	}
	return errors.Join(conclude(cmd.OutOrStdout(), report, o.json), err)
}

// replayer has the converters and interceptors of the connection.
func (o *replayOptions) replayer(application Config, cfg threadmill.Config) (worker.WorkflowReplayer, error) {
	opts, err := clientOptions(application, o.profile)
	if err != nil {
		return nil, err
	}
	return threadmill.NewReplayer(cfg, gate.Options(opts))
}

// connect returns the deployment of the workers, unless there are folders.
func (o *replayOptions) connect(ctx context.Context, application Config, cfg threadmill.Config, folders []string) (d deployment.Deployment, done func(), err error) {
	d = deployment.Deployment{
		Client: cfg.Temporal, Namespace: cmp.Or(cfg.TemporalNamespace, client.DefaultNamespace),
		Name: cmp.Or(cfg.Deployment.Name, cfg.TaskQueue), TaskQueue: cfg.TaskQueue,
	}
	if len(folders) > 0 || d.Client != nil {
		return d, func() {}, nil
	}
	if d.Client, d.Namespace, err = dial(ctx, application, o.profile, telemetry.Config{}, nil, cfg.Logger); err != nil {
		return d, nil, err
	}
	return d, d.Client.Close, nil
}

func (o *replayOptions) replay(ctx context.Context, d deployment.Deployment, g gate.Gate, folders []string) error {
	for _, folder := range folders {
		if err := g.Files(ctx, folder); err != nil {
			return err
		}
	}
	if len(folders) > 0 {
		return nil
	}
	if o.from == "" {
		return g.Live(ctx, gate.Live{Client: d.Client, TaskQueue: d.TaskQueue, Sample: o.sample})
	}
	status, err := d.Inspect(ctx)
	if err != nil {
		return err
	}
	if err := status.CheckMove(o.from, o.deployment(os.Getenv).Build); o.move && err != nil {
		return fmt.Errorf("--move: %w", err)
	}
	return g.Threads(ctx, d)
}

// moveAll moves the threads that this program can replay.
func (o *replayOptions) moveAll(ctx context.Context, w io.Writer, d deployment.Deployment, runs []deployment.Run, report *gate.Report) error {
	build := o.deployment(os.Getenv).Build
	stay, err := d.Move(ctx, runs, build)
	for _, r := range runs {
		if slices.Contains(stay, r) {
			continue
		}
		report.Moved = append(report.Moved, r.Workflow)
		if !o.json {
			fmt.Fprintf(w, "moved   %s to build %s\n", r.Workflow, build)
		}
	}
	return err
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
