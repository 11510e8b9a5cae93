package cli

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/buildinfo"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/internal/ops/doctor"
)

// doctorCommands check the installation.
type doctorCommands struct {
	*app

	deployment string
}

func (a doctorCommands) doctorCommand() *cobra.Command {
	var models bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "doctor",
		Short: "Check the installation, and say what to do about each fault",
		Long: `Check Temporal, its search attributes, workers, the API, the store, the live stream, models, clocks and
versions, and say what to do about each fault. The API checks what only it can reach; its key needs
the role admin. The exit code is 1 if something does not work.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), max(a.flags.timeout, doctorTimeout))
			defer cancel()
			checked := a.waitFor("checking the installation")
			findings := a.findings(ctx, models)
			checked()
			if err := a.show(map[string]any{"findings": findings}, nil, render.Findings(findings), ""); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == doctor.Failed {
					return silentError{}
				}
			}
			return nil
		},
	})
	deploymentFlag(cmd, &a.deployment)
	cmd.Flags().BoolVar(&models, "models", false, "call each model that agents use once, for a few tokens")
	return cmd
}

// doctorTimeout is more than the API takes for its checks.
const doctorTimeout = 40 * time.Second

// findings returns what was found from here and from the API, which knows more: what is fine from here is left out then.
func (a doctorCommands) findings(ctx context.Context, models bool) []doctor.Finding {
	own := make(chan []doctor.Finding, 1)
	go func() { own <- a.temporal(ctx) }()
	out, answered := a.fromAPI(ctx, models)
	for _, f := range <-own {
		if answered && f.Status == doctor.OK {
			continue
		}
		if answered {
			f.Detail = "from this machine: " + f.Detail
		}
		out = append(out, f)
	}
	doctor.Sort(out)
	return out
}

// temporal checks Temporal from here.
func (a doctorCommands) temporal(ctx context.Context) []doctor.Finding {
	opts, err := a.flags.temporalOptions()
	if err != nil {
		return []doctor.Finding{doctor.Bad("temporal", "correct the TEMPORAL_* environment, or the profile", "%s", err)}
	}
	within, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	temporal, err := client.DialContext(within, opts)
	if err != nil {
		return []doctor.Finding{doctor.Bad("temporal", "start it there, or set --address, TEMPORAL_ADDRESS or --profile; \"go run ./devserver\" starts one", "it does not answer at %s: %s", opts.HostPort, err)}
	}
	defer temporal.Close()
	return doctor.Temporal{Client: temporal, Namespace: opts.Namespace, TaskQueue: a.flags.taskQueue, Deployment: a.deployment}.Check(ctx)
}

// fromAPI returns the checks of the API, and those of the way to it.
func (a doctorCommands) fromAPI(ctx context.Context, models bool) (out []doctor.Finding, answered bool) {
	const check = "api"
	stored, err := a.api()
	if err != nil {
		return []doctor.Finding{doctor.Bad(check, "correct --api, THREADMILL_API or the key", "%s", err)}, false
	}
	begun := time.Now()
	report, err := stored.Checks(ctx, models)
	status, refused := errors.AsType[*api.StatusError](err)
	switch {
	case refused && (status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden):
		return []doctor.Finding{doctor.Bad(check, "set THREADMILL_API_KEY, or --api-key-file, to a key with the role admin", "%s: %s", a.flags.api, err)}, false
	case refused && status.Code == http.StatusNotFound:
		return []doctor.Finding{doctor.Bad(check, "check the URL; a Threadmill that has no checks yet is older than this program", "there is no Threadmill with checks at %s", a.flags.api)}, false
	case err != nil:
		return []doctor.Finding{doctor.Bad(check, "start a worker with the role api, or name it by --api or THREADMILL_API; \"go run ./devserver\" starts one", "%s: %s", a.flags.api, err)}, false
	}
	out = append(report.Findings, doctor.Good(check, "%s answers", a.flags.api), doctor.Clock("the API", report.Now, begun, time.Now()))
	if own := buildinfo.Version(); own != report.Version {
		return append(out, doctor.Odd("versions", "use the same version, unless you are just upgrading", "this program is %s, the API %s", own, report.Version)), true
	}
	return append(out, doctor.Good("versions", "this program and the API are both %s", report.Version)), true
}
