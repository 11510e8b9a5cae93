package app

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/buildinfo"
	"github.com/threadmill/threadmill/internal/ops/queueowner"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/signals"
)

const (
	roleWorker = "worker"
	roleAPI    = "api"
	roleTools  = "tools"

	// roleRepair is an API beside which no worker runs, so that it needs no NATS.
	roleRepair = "repair"
)

var roles = []string{roleWorker, roleAPI, roleTools, roleRepair}

// options are the flags.
type options struct {
	roles     []string
	http      string
	config    string
	hosts     []string
	origins   []string
	profile   string
	sqlite    string
	taskQueue string
	take      bool
	tools     []string
	namespace string
	build     string
	deploy    string
	recovery  string
	drain     time.Duration
	logFormat string
	logLevel  slog.Level
	auth      program.AuthFlags
}

func command(cfg Config) (*cobra.Command, error) {
	o := &options{}
	cmd := &cobra.Command{
		Use:   cfg.Name,
		Short: cfg.Description,
		Long: cfg.Description + `

Run threads, serve their API, or both; or run tools alone, on task queues of their own.

Temporal is found by the TEMPORAL_* environment and profiles, PostgreSQL by
DATABASE_URL, and NATS by NATS_URL, which is needed when the roles are separate
processes. /healthz and /readyz are served in every role.`,
		Args:    cobra.NoArgs,
		Version: buildinfo.Version(), // of the program's own module
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		log, err := program.NewLogger(cmd.ErrOrStderr(), o.logFormat, o.logLevel)
		if err != nil {
			return err
		}
		return run(cmd.Context(), cfg, *o, log)
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.roles, "roles", []string{roleWorker, roleAPI}, "what this process does: worker, api, tools for --tool-queues alone, or repair for the API alone before workers run")
	f.StringVar(&o.http, "http", ":8080", "host:port of the API, or of /healthz and /readyz alone")
	o.auth.Register(f)
	f.StringSliceVar(&o.hosts, "allowed-hosts", nil, "names by which requests may call the API, besides localhost and addresses ("+program.EnvAllowedHosts+")")
	f.StringSliceVar(&o.origins, "allowed-origins", nil, "origins, such as https://app.example, whose web pages may call the API ("+program.EnvAllowedOrigins+")")
	f.StringVar(&o.sqlite, "sqlite", "", "keep records in this file instead of PostgreSQL: for one machine")
	f.StringSliceVar(&o.tools, "tool-queues", nil, "further task queues to serve, for tools that declare one")
	o.registerBuild(f)
	f.StringVar(&o.recovery, "recovery-dir", "", "local folder for the running tasks of this process: if it is killed, its successor or another worker with this folder continues them at once ("+program.EnvRecoveryDir+")")
	f.DurationVar(&o.drain, "drain", 30*time.Second, "how long running steps may take to finish on SIGTERM")
	f.BoolVar(&o.take, "take-task-queue", false, "take --task-queue from another program or another store, although its threads are open; once, when this program replaces that one")
	o.register(f, cfg, slog.LevelInfo)
	if err := addFlags(cmd, cfg.Flags); err != nil {
		return cmd, err
	}
	addReplay(cmd, cfg)
	return cmd, nil
}

// register adds the flags of all commands.
func (o *options) register(f *pflag.FlagSet, cfg Config, level slog.Level) {
	f.StringVar(&o.config, "config", "", "YAML file with agents, models, tools and hooks (default: one agent, by the environment)")
	f.StringVar(&o.profile, "profile", "", "profile of Temporal's configuration file (TEMPORAL_PROFILE)")
	f.StringVar(&o.taskQueue, "task-queue", cmp.Or(cfg.TaskQueue, queueowner.Name(queueowner.Program())), "task queue of the threads, which belongs to this program")
	f.StringVar(&o.namespace, "namespace", signals.DefaultNamespace, "Threadmill namespace of the threads that the API serves")
	f.StringVar(&o.logFormat, "log-format", program.LogText, "text or json")
	f.TextVar(&o.logLevel, "log-level", level, "debug, info, warn or error")
}

// registerBuild adds the flags of the build of this program.
func (o *options) registerBuild(f *pflag.FlagSet) {
	f.StringVar(&o.build, "build", "", "build id of the workers, to which threads are pinned ("+program.EnvBuild+")")
	f.StringVar(&o.deploy, "deployment", "", "name of the Worker Deployment of the build ("+program.EnvDeployment+"; default: the task queue)")
}

// addFlags adds the flags of the application, which must not have the names of others.
func addFlags(cmd *cobra.Command, add func(*flag.FlagSet)) error {
	if add == nil {
		return nil
	}
	own := flag.NewFlagSet(cmd.Name(), flag.ContinueOnError)
	add(own)
	var taken error
	own.VisitAll(func(f *flag.Flag) {
		if cmd.Flags().Lookup(f.Name) != nil || f.Name == "help" {
			what := "of every program"
			if cmd.HasParent() {
				what = fmt.Sprintf("of the command %q, which cannot run", cmd.Name())
			}
			taken = fmt.Errorf("Config.Flags: --%s is a flag %s: choose another name", f.Name, what)
		}
	})
	cmd.Flags().AddGoFlagSet(own)
	return taken
}

func (o *options) check() error {
	for _, role := range o.roles {
		if !slices.Contains(roles, role) {
			return program.Usagef("--roles: %q is none of %s", role, strings.Join(roles, ", "))
		}
	}
	switch runs := o.has(roleWorker) || o.has(roleTools); {
	case len(o.roles) == 0:
		return program.Usagef("--roles: name at least one of %s", strings.Join(roles, ", "))
	case o.has(roleRepair) && len(o.roles) > 1:
		return program.Usagef("--roles: %s goes alone, before workers run", roleRepair)
	case o.has(roleTools) && len(o.tools) == 0:
		return program.Usagef("--tool-queues: name the task queues for --roles %s", roleTools)
	case len(o.tools) > 0 && !runs:
		return program.Usagef("--tool-queues: needs --roles %s or %s", roleWorker, roleTools)
	}
	if o.drain <= 0 {
		return program.Usagef("--drain: %s must be more than 0", o.drain)
	}
	if o.taskQueue == "" {
		return program.Usagef("--task-queue: must not be empty")
	}
	if err := signals.ValidateID("--namespace", o.namespace); err != nil {
		return program.Usagef("%w", err)
	}
	if o.deploy != "" && o.deployment(os.Getenv).Build == "" && o.has(roleWorker) {
		return program.Usagef("--deployment: needs --build, the build id of this program")
	}
	if err := (threadmill.Deployment{Build: o.build, Name: o.deploy}).Validate(); err != nil {
		return program.Usagef("%w", err)
	}
	if err := o.auth.Validate(); err != nil {
		return err
	}
	return program.ValidateAddr("http", o.http)
}

func (o *options) has(role string) bool { return slices.Contains(o.roles, role) }

// servesAPI reports whether this process serves the API, rather than health alone.
func (o *options) servesAPI() bool { return o.has(roleAPI) || o.has(roleRepair) }

// checkServers returns an error if the environment lacks a server for these roles, which the application does not
// bring itself.
func (o *options) checkServers(declared *threadmill.Config, api *httpapi.Config, getenv func(string) string) error {
	database, nats := getenv(program.EnvDatabaseURL), getenv(program.EnvNATSURL)
	switch {
	case api.Authenticator != nil && o.auth.Mode != "":
		return program.Usagef("--auth: the program authenticates requests itself")
	case declared.Temporal != nil && o.recovery != "":
		return program.Usagef("--recovery-dir: the program connects to Temporal itself")
	case declared.Store == nil && database == "" && o.sqlite == "":
		return program.Usagef("%s is not set: set it to postgres://user@host:5432/database, or use --sqlite FILE on a single machine", program.EnvDatabaseURL)
	case database != "" && o.sqlite != "":
		return program.Usagef("--sqlite: %s is set as well: keep one of them", program.EnvDatabaseURL)
	case declared.Stream == nil && nats == "" && !(o.has(roleWorker) && o.has(roleAPI)) && !o.has(roleRepair):
		return program.Usagef("%s is not set: with --roles %s the live stream needs it to reach the other processes; set it to nats://host:4222, or use --roles %s,%s",
			program.EnvNATSURL, o.roles[0], roleWorker, roleAPI)
	}
	return nil
}

// deployment returns the build of the flags or of the environment, in which Temporal's controller for Kubernetes sets it.
func (o *options) deployment(getenv func(string) string) threadmill.Deployment {
	return threadmill.Deployment{Build: cmp.Or(o.build, getenv(program.EnvBuild)), Name: cmp.Or(o.deploy, getenv(program.EnvDeployment))}
}
