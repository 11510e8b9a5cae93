// Command devserver is everything in one process: Temporal with its Web UI, the
// store, a worker and the HTTP API. There is nothing to install beside it.
//
//	go run ./devserver
//
// It keeps its data in ./.threadmill (--data), or nowhere with --memory. It reads
// threadmill.yaml if there is one (--config); without, there is one agent, with a
// model of OpenAI if OPENAI_API_KEY is set and an offline stand-in otherwise.
// DATABASE_URL and NATS_URL replace the built-in store and live stream.
//
// A process that is stopped or killed loses nothing: start it again, and threads go
// on. The first SIGINT or SIGTERM stops it cleanly, the second at once.
package main

import (
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/devserver/embedded"
	"github.com/threadmill/threadmill/internal/program"
)

func main() { os.Exit(program.Main(command())) }

const (
	defaultHTTP   = "127.0.0.1:8080"
	defaultUI     = "127.0.0.1:8233"
	defaultData   = "./.threadmill"
	defaultConfig = "threadmill.yaml"
)

// options are the flags.
type options struct {
	data         string
	httpAddr     string
	temporalAddr string
	uiAddr       string
	config       string
	hosts        []string
	memory       bool
	logLevel     slog.Level
	auth         program.AuthFlags
}

func command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "devserver",
		Short: "Run Temporal, its Web UI, the store, a worker and the API in one process",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.complete(cmd.Flags().Changed("data")); err != nil {
			return err
		}
		log, err := program.NewLogger(cmd.ErrOrStderr(), program.LogText, o.logLevel)
		if err != nil {
			return err
		}
		return run(cmd.Context(), *o, log, cmd.OutOrStdout())
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", defaultData, "folder for everything that is kept")
	f.StringVar(&o.httpAddr, "http", defaultHTTP, "host:port of the API")
	o.auth.Register(f)
	f.StringVar(&o.temporalAddr, "temporal", embedded.DefaultAddr, "host:port of Temporal")
	f.StringVar(&o.uiAddr, "ui", defaultUI, `host:port of Temporal's Web UI; "" is none`)
	f.StringSliceVar(&o.hosts, "allowed-hosts", nil, "names by which requests may call the API and Temporal's Web UI, besides localhost and addresses ("+program.EnvAllowedHosts+")")
	f.StringVar(&o.config, "config", "", "YAML file with agents, models, tools and hooks (default: ./"+defaultConfig+", if there is one)")
	f.BoolVar(&o.memory, "memory", false, "keep everything in memory: nothing is left in the end")
	f.TextVar(&o.logLevel, "log-level", slog.LevelWarn, "debug, info, warn or error")
	return cmd
}

// complete checks the flags and looks for a configuration.
func (o *options) complete(dataGiven bool) error {
	if o.memory && dataGiven {
		return program.Usagef("--memory: --data is given as well: keep one of them")
	}
	if o.data == "" {
		return program.Usagef("--data: name a folder, or use --memory")
	}
	if err := o.auth.Validate(); err != nil {
		return err
	}
	if err := program.ValidateAddr("http", o.httpAddr); err != nil {
		return err
	}
	for flag, addr := range map[string]string{"temporal": o.temporalAddr, "ui": o.uiAddr} {
		if flag == "ui" && addr == "" {
			continue
		}
		if err := checkIP(flag, addr); err != nil {
			return err
		}
	}
	if o.config == "" {
		if _, err := os.Stat(defaultConfig); err == nil {
			o.config = defaultConfig
		}
	}
	return nil
}

// checkIP refuses what the embedded server cannot listen on.
func checkIP(flag, addr string) error {
	if err := program.ValidateAddr(flag, addr); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(addr)
	if err == nil && host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return program.Usagef("--%s: the host of %q must be an IP address or localhost", flag, addr)
	}
	return nil
}
