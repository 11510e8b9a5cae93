package deploying

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/internal/testenv"
	"github.com/threadmill/threadmill/tests/internal/process"
)

const (
	alerts     = "../../deploy/prometheus/alerts.yml"
	alertTests = "../../deploy/prometheus/alerts_test.yml"
	dashboard  = "../../deploy/grafana/threadmill.json"
)

// panels returns the queries of the dashboard, by the titles of their panels.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(dashboard)
	require.NoError(t, err)
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &d))
	out := map[string][]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			// Grafana replaces them.
			out[p.Title] = append(out[p.Title], strings.NewReplacer("$__rate_interval", "30s", "$job", ".*").Replace(target.Expr))
		}
	}
	require.Greater(t, len(out), 15)
	return out
}

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// scrape runs a Prometheus with the alerts that scrapes an address.
func scrape(t *testing.T, target string) *prometheus {
	t.Helper()
	server, _ := testenv.Prometheus(t)
	dir, addr := t.TempDir(), process.FreeAddr(t)
	rules, err := filepath.Abs(alerts)
	require.NoError(t, err)
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs: [{job_name: threadmill, static_configs: [{targets: [%q]}]}]\n", rules, target)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600))
	cmd := exec.Command(server, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if raw, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("Prometheus: %s", raw)
		}
		_ = log.Close()
	})
	p := &prometheus{"http://" + addr}
	require.Eventually(t, func() bool {
		res, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	}, testenv.Patience, testenv.Tick, "Prometheus is ready")
	return p
}

// get decodes the data of a response of the API, and fails for an error.
func (p *prometheus) get(t *testing.T, path string, out any) {
	t.Helper()
	res, err := http.Get(p.url + path)
	require.NoError(t, err)
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", path, answer.Error)
	require.NoError(t, json.Unmarshal(answer.Data, out))
}

// results returns the number of series of a query.
func (p *prometheus) results(t *testing.T, query string) int {
	t.Helper()
	var data struct{ Result []json.RawMessage }
	p.get(t, "/api/v1/query?query="+url.QueryEscape(query), &data)
	return len(data.Result)
}

type ruleGroups struct {
	Groups []struct {
		Rules []alertRule
	}
}

type alertRule struct{ Name, Query, Health, State, LastError string }

// TestDashboardAndAlerts: a Prometheus that scrapes a devserver answers every query of the dashboard, knows the metrics of
// every alert, and notices when the devserver is gone.
func TestDashboardAndAlerts(t *testing.T) {
	_, promtool := testenv.Prometheus(t)
	out, err := exec.Command(promtool, "test", "rules", alertTests).CombinedOutput()
	require.NoError(t, err, string(out))

	metrics := process.FreeAddr(t)
	host, port, _ := strings.Cut(metrics, ":")
	d := process.New(t, process.Options{Binary: process.Build(t), Env: []string{
		"OTEL_METRICS_EXPORTER=prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST=" + host, "OTEL_EXPORTER_PROMETHEUS_PORT=" + port, "THREADMILL_COUNT_WAITING=1s",
	}})
	d.Start()
	p := scrape(t, metrics)
	viewer := d.Watch(t, "t1", nil)
	turn := 0
	work := func() {
		turn++
		if turn == 1 {
			d.Open("t1", `use shell_cmd {"command":"true"}`)
		} else {
			d.Say("t1", `use shell_cmd {"command":"true"}`)
		}
		require.Equal(t, "accepted", d.Approve("t1", d.AwaitApproval("t1").ToolCallID))
		d.AwaitTurns("t1", turn)
	}
	work()

	missing := map[string]string{}
	for title, queries := range panels(t) {
		for _, q := range queries {
			missing[q] = title
		}
	}
	require.Eventually(t, func() bool {
		work() // a rate needs increases
		for q := range missing {
			if p.results(t, q) > 0 {
				delete(missing, q)
			}
		}
		return len(missing) == 0
	}, testenv.Patience, testenv.Tick, "panels without data: %v", missing)
	require.NotEmpty(t, viewer.Events())

	var rules ruleGroups
	require.Eventually(t, func() bool {
		p.get(t, "/api/v1/rules", &rules)
		return !slices.ContainsFunc(rules.Groups[0].Rules, func(r alertRule) bool { return r.Health == "unknown" })
	}, testenv.Patience, testenv.Tick, "the alerts are evaluated")
	require.Len(t, rules.Groups, 1)
	for _, r := range rules.Groups[0].Rules {
		require.Equal(t, "ok", r.Health, "%s: %s", r.Name, r.LastError)
		require.Equal(t, "inactive", r.State, r.Name)
		for _, name := range metricNames(r.Query) {
			require.Positive(t, p.results(t, name), "%s: nothing exports %s", r.Name, name)
		}
	}

	d.Terminate()
	require.Eventually(t, func() bool {
		p.get(t, "/api/v1/rules", &rules)
		return slices.ContainsFunc(rules.Groups[0].Rules, func(r alertRule) bool {
			return r.Name == "ThreadmillMissing" && r.State == "pending"
		})
	}, testenv.Patience, testenv.Tick, "the devserver is missed")
}

var (
	selectors = regexp.MustCompile(`\{[^}]*\}|by \([^)]*\)`)
	metric    = regexp.MustCompile(`\b(?:threadmill|gen_ai|http|temporal)_[a-z_]+`)
)

// metricNames returns the metrics in a query.
func metricNames(query string) []string {
	return metric.FindAllString(selectors.ReplaceAllString(query, ""), -1)
}

// TestExportsNoTenants: the metrics contain no namespaces, ids, texts or hosts that clients choose, and names that are
// created at run time only up to a limit.
func TestExportsNoTenants(t *testing.T) {
	metrics := process.FreeAddr(t)
	host, port, _ := strings.Cut(metrics, ":")
	d := process.New(t, process.Options{Binary: process.Build(t), Env: []string{
		"OTEL_METRICS_EXPORTER=prometheus", "OTEL_EXPORTER_PROMETHEUS_HOST=" + host, "OTEL_EXPORTER_PROMETHEUS_PORT=" + port,
	}})
	d.Start()
	d.Open("secret-thread", "secret text")
	d.AwaitTurns("secret-thread", 1)
	req, err := http.NewRequestWithContext(t.Context(), "SECRETMETHOD", d.URL+"/v1/secret-path?secret-query", nil)
	require.NoError(t, err)
	req.Host = "localhost"
	req.Header.Set("User-Agent", "secret-agent")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	res, err = http.Get("http://" + metrics + "/metrics")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "threadmill_turns_total")
	require.Contains(t, string(text), `http_request_method="_OTHER"`)
	require.NotContains(t, strings.ToLower(string(text)), "secret")
}
