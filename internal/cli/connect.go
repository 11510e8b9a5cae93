package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/console"
	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// The environment variables of this program besides those that Temporal's client reads.
const (
	envAPI        = "THREADMILL_API"
	envRedact     = "THREADMILL_REDACT"
	envDeployment = "TEMPORAL_DEPLOYMENT_NAME" // as workers have it
)

const (
	defaultAddress = "localhost:7233"
	defaultTimeout = 20 * time.Second
	dialTimeout    = 5 * time.Second
)

// connection has the addresses of Temporal and the API.
type connection struct {
	address           string
	temporalNamespace string
	profile           string
	api               string
	keyFile           string
	namespace         string
	taskQueue         string
	timeout           time.Duration

	// redact is the path of a file with a section redact.
	redact string

	// dialled is the address of the connection, for messages.
	dialled *string
}

func (c *connection) register(f *pflag.FlagSet) {
	base := os.Getenv(envAPI)
	if base == "" {
		base = api.DefaultBase
	}
	c.dialled = new(string)
	f.StringVar(&c.address, "address", "", "Temporal's host:port (TEMPORAL_ADDRESS; default "+defaultAddress+")")
	f.StringVar(&c.temporalNamespace, "temporal-namespace", "", "Temporal's namespace (TEMPORAL_NAMESPACE; default default)")
	f.StringVar(&c.profile, "profile", "", "profile of Temporal's configuration file (TEMPORAL_PROFILE)")
	f.StringVar(&c.api, "api", base, "URL of the Threadmill API ("+envAPI+")")
	f.StringVar(&c.keyFile, "api-key-file", "", "file with the key for the API, which only you may read ("+envKey+" has the key itself; default threadmill/<profile>.key in the folder of configurations)")
	f.StringVar(&c.namespace, "namespace", signals.DefaultNamespace, "Threadmill namespace of the threads")
	f.StringVar(&c.taskQueue, "task-queue", signals.DefaultTaskQueue, "task queue where new threads run")
	f.StringVar(&c.redact, "redact", os.Getenv(envRedact), "YAML file whose section redact says what must not leave this program ("+envRedact+"; usually the server's configuration)")
	f.DurationVar(&c.timeout, "timeout", defaultTimeout, "how long a command that does not wait for a turn may take")
}

// temporalOptions are those of the flags, or else of the environment and its profiles.
func (c connection) temporalOptions() (client.Options, error) {
	opts, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{ConfigFileProfile: c.profile})
	if err != nil {
		return opts, fmt.Errorf("reading Temporal's configuration: %w", err)
	}
	if c.address != "" {
		opts.HostPort = c.address
	}
	if opts.HostPort == "" {
		opts.HostPort = defaultAddress
	}
	if c.temporalNamespace != "" {
		opts.Namespace = c.temporalNamespace
	}
	if opts.Namespace == "" {
		opts.Namespace = client.DefaultNamespace
	}
	opts.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return opts, nil
}

// dialTemporal connects to Temporal, and fails if it does not respond.
func dialTemporal(ctx context.Context, c connection) (threads, func(), error) {
	opts, err := c.temporalOptions()
	if err != nil {
		return nil, nil, err
	}
	*c.dialled = opts.HostPort
	var redactor *redact.Redactor
	if c.redact != "" {
		if redactor, err = config.Redactor(c.redact); err != nil {
			return nil, nil, usageError{fmt.Errorf("--redact: %w", err)}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	temporal, err := client.DialContext(ctx, opts)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, nil, ctx.Err()
		}
		return nil, nil, &dialError{opts.HostPort, err}
	}
	t, err := threadclient.New(threadclient.Config{Temporal: temporal, Namespace: c.namespace, TaskQueue: c.taskQueue, Redact: redactor, Erased: threadclient.ErasedIn(temporal)})
	if err != nil {
		temporal.Close()
		return nil, nil, usageError{err}
	}
	return t, temporal.Close, nil
}

// dialError means that Temporal did not respond.
type dialError struct {
	address string
	err     error
}

func (e *dialError) Error() string {
	return fmt.Sprintf("Temporal does not answer at %s: %v", e.address, e.err)
}

func (e *dialError) Unwrap() error { return e.err }

// withThreads connects to Temporal and calls fn. Ctrl-C cancels it, and so does --timeout unless
// wait is set.
func (a *app) withThreads(ctx context.Context, wait bool, fn func(ctx context.Context, t threads) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	arrived := a.waitFor("waiting for Temporal")
	t, hangUp, err := a.dial(ctx, a.flags)
	arrived()
	if err != nil {
		return err
	}
	defer hangUp()
	what := "waiting for the thread"
	if wait {
		what = "waiting for the end of the turn"
	}
	defer a.waitFor(what)()
	if wait {
		return a.diagnosed(ctx, t, fn(ctx, t))
	}
	within, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	return a.diagnosed(ctx, t, fn(within, t))
}

// onThread runs fn for a thread with a valid id. Errors name the thread.
func (a *app) onThread(cmd *cobra.Command, thread string, fn func(ctx context.Context, t threads) error) error {
	if err := checkThread(thread); err != nil {
		return err
	}
	return a.withThreads(cmd.Context(), false, func(ctx context.Context, t threads) error {
		return about(thread, fn(ctx, t))
	})
}

func (a *app) api() (*api.Client, error) {
	key, err := a.flags.apiKey()
	if err != nil {
		return nil, err
	}
	c, err := api.New(api.Config{Base: a.flags.api, Namespace: a.flags.namespace, Key: key})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// onAPI runs fn with the API. Ctrl-C and --timeout cancel it.
func (a *app) onAPI(ctx context.Context, fn func(ctx context.Context, stored *api.Client) error) error {
	stored, err := a.api()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, a.flags.timeout)
	defer cancel()
	defer a.waitFor("waiting for the API")()
	return fn(ctx, stored)
}

// waitFor shows on a terminal what is being waited for, until done is called or something is
// printed.
func (a *app) waitFor(what string) (done func()) {
	if a.progress == nil {
		return func() {}
	}
	stop := console.Wait(a.progress, what)
	a.stdout.Before(stop)
	a.stderr.Before(stop)
	return stop
}

// withAPI is [app.onAPI] for a thread with a valid id. Errors name the thread.
func (a *app) withAPI(ctx context.Context, thread string, fn func(ctx context.Context, stored *api.Client) error) error {
	if err := checkThread(thread); err != nil {
		return err
	}
	return about(thread, a.onAPI(ctx, fn))
}
