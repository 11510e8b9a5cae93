// Command devserver runs everything in one process: Temporal with its Web UI, the store, a worker
// and the HTTP API. It needs no other servers.
//
//	go run ./devserver
//
// Its data is in ./.threadmill (--data) or, with --memory, in memory. It reads threadmill.yaml if
// the file exists (--config); otherwise there is one agent, with an OpenAI model if OPENAI_API_KEY
// is set and the offline model if not. DATABASE_URL and NATS_URL replace the built-in store and
// live stream.
//
// A stopped or killed process loses nothing: threads continue after a restart. The first SIGINT or
// SIGTERM stops it cleanly, the second immediately.
package main

import (
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/buildinfo"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
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
	origins      []string
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

		Version: buildinfo.Version(),
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
	f.StringSliceVar(&o.origins, "allowed-origins", nil, "origins, such as http://localhost:5173, whose web pages may call the API ("+program.EnvAllowedOrigins+")")
	f.StringVar(&o.config, "config", "", "YAML file with agents, models, tools and hooks (default: ./"+defaultConfig+", if there is one)")
	f.BoolVar(&o.memory, "memory", false, "keep everything in memory: nothing is left in the end")
	f.TextVar(&o.logLevel, "log-level", slog.LevelWarn, "debug, info, warn or error")
	return cmd
}

// complete checks the flags and looks for a configuration file.
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

// checkIP rejects addresses that the embedded server cannot listen on.
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
