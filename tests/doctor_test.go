package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/cli"
	"github.com/threadmill/threadmill/internal/erasures"
	"github.com/threadmill/threadmill/internal/ops/doctor"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/internal/testenv/teststore"
	"github.com/threadmill/threadmill/llm/llmtest"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/harness"
	"github.com/threadmill/threadmill/tests/internal/process"
	"github.com/threadmill/threadmill/tool"
)

// TestDoctor breaks an installation in many ways. "starter doctor" finds each of them, and says what to do.
func TestDoctor(t *testing.T) {
	t.Run("nothing is broken", func(t *testing.T) {
		w := harness.New(t, harness.Options{})
		w.Say(w.Open(), "hello")
		found := diagnosed(t, w, 0, "--models")
		for _, check := range []string{"temporal", "namespace", "search attributes", "workers", "api", "store", "live stream", "models", "clocks", "versions"} {
			require.Contains(t, found, doctor.Finding{Check: check, Status: doctor.OK}, "a finding without a fault")
		}
	})
	for name, c := range map[string]struct {
		options harness.Options
		change  func(t *testing.T, w *harness.Harness)
		args    []string
		want    doctor.Finding // with the beginnings of texts
	}{
		"Temporal is elsewhere": {args: []string{"--address", "127.0.0.1:1"}, want: doctor.Bad("temporal", "start it there, or set --address", "from this machine: it does not answer at 127.0.0.1:1")},
		"no such namespace of Temporal": {args: []string{"--temporal-namespace", "nowhere"}, want: doctor.Bad("namespace",
			"set TEMPORAL_NAMESPACE, or create it: temporal operator namespace create --namespace nowhere", `from this machine: Temporal has no namespace "nowhere"`)},
		"no worker": {options: harness.Options{NoWorker: true}, want: doctor.Bad("workers", "start a worker for it", "no worker has polled task queue")},
		"another task queue": {args: []string{"--task-queue", "other"}, want: doctor.Bad("workers",
			"start a worker for it, or name the queue that yours serves: worker --task-queue other", `from this machine: no worker has polled task queue "other"`)},
		"no worker for a tool": {
			options: harness.Options{Tools: []tool.Tool{tool.MustFunc("far", "Far.", func(context.Context, tool.Call, struct{}) (string, error) { return "", nil }, tool.OnTaskQueue("gpu-queue"))}},
			want:    doctor.Bad("workers", "start a worker for it", `no worker has polled task queue "gpu-queue"`),
		},
		"the API does not run": {
			change: func(_ *testing.T, w *harness.Harness) { w.API.Close() },
			want:   doctor.Bad("api", "start a worker with the role api", "http://127.0.0.1:"),
		},
		"the API wants a key": {options: harness.Options{Serve: func(_ threadmill.Config, cfg *httpapi.Config) {
			cfg.Authenticator = auth.Func(func(*http.Request) (auth.Principal, error) { return auth.Principal{}, auth.ErrUnauthenticated })
		}}, want: doctor.Bad("api", "set THREADMILL_API_KEY, or --api-key-file, to a key with the role admin", "http://127.0.0.1:")},
		"the store is gone": {
			options: harness.Options{Configure: func(cfg *threadmill.Config) {
				cfg.Store = teststore.Before(cfg.Store, func(context.Context) error { return errors.New("connection refused") }, "ping")
			}},
			want: doctor.Bad("store", "check DATABASE_URL", "it does not answer: "),
		},
		"the live stream is gone": {
			change: func(t *testing.T, w *harness.Harness) { require.NoError(t, w.Stream.Close()) },
			want:   doctor.Bad("live stream", "check NATS_URL", "it does not answer: "),
		},
		"a wrong key of a model": {
			options: harness.Options{Provider: llmtest.Config{APIKey: "another"}}, args: []string{"--models"},
			want: doctor.Bad("models", "check the provider's key", "openai/stand-in: "),
		},
		"an agent without a provider": {options: harness.Options{Configure: func(cfg *threadmill.Config) {
			cfg.AgentSource = agent.Fixed{{Name: "lost", Model: "gone/away"}}
		}}, want: doctor.Bad("models", `add the provider "gone"`, `gone/away: there is no provider "gone"`)},
		"an erasure waits for a thread": {
			change: func(t *testing.T, w *harness.Harness) {
				w.Say(w.Open(), "hello") // its worker polls
				e, err := erasures.BeginPerson(w.Ctx(), w.Store, w.TaskQueue, erasures.PersonRequest{Person: "ann"}, "carol")
				require.NoError(t, err)
				for thread, since := range map[string]time.Duration{"new": time.Minute, "old": time.Hour} {
					wait := signals.PersonWait{ThreadID: thread, Why: "its task runs", Since: time.Now().Add(-since)}
					_, err := erasures.WaitFor(w.Ctx(), w.Store, w.TaskQueue, e.ID, erasures.Wait{PersonWait: wait})
					require.NoError(t, err)
				}
			},
			want: doctor.Odd("erasures", "end what it waits for, or close or erase the thread", "a thread of a person's erasure waits: old, "),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := harness.New(t, c.options)
			if c.change != nil {
				c.change(t, w)
			}
			code := 0
			if c.want.Status == doctor.Failed {
				code = 1
			}
			requireFinding(t, reported(t, w, code, c.args...), c.want)
		})
	}
}

// TestDoctorOfTemporal looks at servers of Temporal that are set up wrongly. There is no API.
func TestDoctorOfTemporal(t *testing.T) {
	wrong := searchattr.Types()
	wrong[signals.AttributeStatus] = enumspb.INDEXED_VALUE_TYPE_INT
	for name, c := range map[string]struct {
		config process.TemporalConfig
		want   doctor.Finding
	}{
		"no search attributes": {want: doctor.Bad("search attributes", "start a worker, which registers them, or run: temporal operator search-attribute create --name ThreadmillAgents --type KeywordList",
			"ThreadmillAgents, ThreadmillNamespace, ThreadmillStatus missing")},
		"a search attribute of another type": {
			config: process.TemporalConfig{SearchAttributes: wrong},
			want:   doctor.Bad("search attributes", "use another namespace of Temporal", "ThreadmillStatus is a Int, must be a Keyword"),
		},
		"a short retention": {
			config: process.TemporalConfig{SearchAttributes: searchattr.Types(), Retention: time.Hour},
			want:   doctor.Odd("namespace", "raise it: temporal operator namespace update --namespace default --retention 7d", `namespace "default" keeps closed workflows for only 1h`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := process.NewTemporal(t, c.config)
			requireFinding(t, doctorOf(t, 1, "--address", s.Addr(), "--api", "http://"+process.FreeAddr(t)), c.want)
		})
	}
}

// TestDoctorOfAPI asks APIs that are not what they should be.
func TestDoctorOfAPI(t *testing.T) {
	temporal := harness.Temporal(t)
	for name, c := range map[string]struct {
		answer string
		code   int
		want   doctor.Finding
	}{
		"another clock": {
			code: 200, answer: fmt.Sprintf(`{"version":"v0","now":%q,"findings":[]}`, time.Now().Add(-time.Hour).Format(time.RFC3339)),
			want: doctor.Bad("clocks", "synchronize both machines by NTP", "the clock of the API is 1h0m"),
		},
		"another version": {
			code: 200, answer: fmt.Sprintf(`{"version":"v0","now":%q,"findings":[]}`, time.Now().Format(time.RFC3339Nano)),
			want: doctor.Odd("versions", "use the same version", "this program is "),
		},
		"no Threadmill": {code: 404, answer: `not found`, want: doctor.Bad("api", "check the URL", "there is no Threadmill with checks at http://")},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.answer))
			}))
			t.Cleanup(s.Close)
			requireFinding(t, doctorOf(t, 1, "--address", temporal.Addr(), "--api", s.URL, "--task-queue", "unserved"), c.want)
		})
	}
}

// requireFinding requires a finding whose texts begin as wanted.
func requireFinding(t *testing.T, found []doctor.Finding, want doctor.Finding) {
	t.Helper()
	for _, f := range found {
		if f.Check == want.Check && f.Status == want.Status && strings.HasPrefix(f.Detail, want.Detail) && strings.HasPrefix(f.Advice, want.Advice) {
			return
		}
	}
	require.Fail(t, "not found", "%+v\nin %+v", want, found)
}

// reported returns the findings of a world.
func reported(t *testing.T, w *harness.Harness, code int, args ...string) []doctor.Finding {
	t.Helper()
	base := []string{"--address", w.Server.Addr(), "--api", w.API.URL, "--namespace", w.TaskQueue, "--task-queue", w.TaskQueue}
	return doctorOf(t, code, append(base, args...)...)
}

// diagnosed returns the findings of a world without their texts.
func diagnosed(t *testing.T, w *harness.Harness, code int, args ...string) []doctor.Finding {
	t.Helper()
	var out []doctor.Finding
	for _, f := range reported(t, w, code, args...) {
		out = append(out, doctor.Finding{Check: f.Check, Status: f.Status})
	}
	return out
}

func doctorOf(t *testing.T, code int, args ...string) []doctor.Finding {
	t.Helper()
	var out, errs strings.Builder
	require.Equal(t, code, cli.Run(t.Context(), append([]string{"doctor", "--json"}, args...), strings.NewReader(""), &out, &errs), "%s%s", out.String(), errs.String())
	var report struct{ Findings []doctor.Finding }
	require.NoError(t, json.Unmarshal([]byte(out.String()), &report))
	for _, f := range report.Findings {
		require.Equal(t, f.Status == doctor.OK, f.Advice == "", "%+v: each fault has an advice", f)
	}
	return report.Findings
}
