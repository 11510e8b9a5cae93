package programs

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// composition has the tested parts of a Compose file.
type composition struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image       string                      `yaml:"image"`
	Build       any                         `yaml:"build"`
	Command     any                         `yaml:"command"`
	Environment map[string]any              `yaml:"environment"`
	Healthcheck map[string]any              `yaml:"healthcheck"`
	DependsOn   map[string]serviceCondition `yaml:"depends_on"`
	Deploy      struct {
		Replicas int `yaml:"replicas"`
	} `yaml:"deploy"`
	Ports []any `yaml:"ports"`
}

type serviceCondition struct {
	Condition string `yaml:"condition"`
}

// composeConfig returns docker-compose.yml as the Compose tool reads it, with the given
// environment.
func composeConfig(t *testing.T, env ...string) composition {
	t.Helper()
	cmd := composeTool(t, "--file", "docker-compose.yml", "config")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), append([]string{
		"COMPOSE_PROJECT_NAME=threadmill", "POSTGRES_PASSWORD=", "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "THREADMILL_MODEL=",
		"TEMPORAL_WORKER_BUILD_ID=", "TEMPORAL_DEPLOYMENT_NAME=",
		"THREADMILL_API_KEY=tmk_admin_0123456789abcdef0123456789abcdef",
	}, env...)...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	require.NoError(t, cmd.Run(), problems.String())
	var c composition
	require.NoError(t, yaml.Unmarshal([]byte(out.String()), &c), out.String())
	return c
}

// composeTool finds Docker's plugin or the older program; neither needs an engine here.
func composeTool(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if exec.Command("docker", "compose", "version").Run() == nil {
		return exec.Command("docker", append([]string{"compose"}, args...)...)
	}
	if path, err := exec.LookPath("docker-compose"); err == nil {
		return exec.Command(path, args...)
	}
	const absent = "no Compose tool: install docker-compose, or Docker's plugin of that name"
	if slices.Contains(strings.Split(os.Getenv("THREADMILL_REQUIRE"), ","), "compose") {
		t.Fatal(absent)
	}
	t.Skip(absent)
	return nil
}

func TestCompose(t *testing.T) {
	c := composeConfig(t)

	t.Run("has everything", func(t *testing.T) {
		for _, name := range []string{"postgres", "nats", "temporal", "temporal-ui", "worker", "api"} {
			require.Contains(t, c.Services, name)
		}
		require.Contains(t, c.Volumes, "postgres")
	})
	t.Run("two workers and an API", func(t *testing.T) {
		worker, api := c.Services["worker"], c.Services["api"]
		require.Equal(t, []any{"worker", "--roles", "worker"}, worker.Command)
		require.Equal(t, 2, worker.Deploy.Replicas)
		require.NotNil(t, worker.Build)
		require.Equal(t, []any{"worker", "--roles", "api"}, api.Command)
		require.Len(t, api.Ports, 1)
		for _, s := range []service{worker, api} {
			require.Equal(t, "postgres://threadmill:threadmill@postgres:5432/threadmill?sslmode=disable", s.Environment["DATABASE_URL"])
			require.NotEmpty(t, s.Healthcheck)
			require.Equal(t, "nats://nats:4222", s.Environment["NATS_URL"])
			require.Equal(t, "temporal:7233", s.Environment["TEMPORAL_ADDRESS"])
		}
	})
	t.Run("what is waited for can be waited for", func(t *testing.T) {
		for name, s := range c.Services {
			for other, on := range s.DependsOn {
				if on.Condition != "service_completed_successfully" {
					require.Equal(t, "service_healthy", on.Condition, "%s waits for %s", name, other)
					require.NotEmpty(t, c.Services[other].Healthcheck, "%s waits for %s", name, other)
				}
			}
		}
	})
	t.Run("images have versions", func(t *testing.T) {
		versioned := regexp.MustCompile(`^[a-z/-]+:[0-9]`)
		for name, s := range c.Services {
			if s.Build == nil {
				require.Regexp(t, versioned, s.Image, name)
			}
		}
	})
	t.Run("the cluster has the versions that the devserver embeds", func(t *testing.T) {
		require.Equal(t, "temporalio/server:"+embedded(t, "go.temporal.io/server"), c.Services["temporal"].Image)
		require.Equal(t, "temporalio/admin-tools:"+embedded(t, "go.temporal.io/server"), c.Services["temporal-schema"].Image)
		require.Equal(t, "temporalio/ui:"+embedded(t, "github.com/temporalio/ui-server/v2"), c.Services["temporal-ui"].Image)
	})
	t.Run("builds come from the environment", func(t *testing.T) {
		require.Empty(t, c.Services["worker"].Environment["TEMPORAL_WORKER_BUILD_ID"])
		c := composeConfig(t, "TEMPORAL_WORKER_BUILD_ID=1.5", "TEMPORAL_DEPLOYMENT_NAME=acme")
		for _, name := range []string{"worker", "api"} {
			require.Equal(t, "1.5", c.Services[name].Environment["TEMPORAL_WORKER_BUILD_ID"], name)
			require.Equal(t, "acme", c.Services[name].Environment["TEMPORAL_DEPLOYMENT_NAME"], name)
		}
	})
	t.Run("keys and passwords come from the environment", func(t *testing.T) {
		require.Empty(t, c.Services["worker"].Environment["OPENAI_API_KEY"])
		c := composeConfig(t, "OPENAI_API_KEY=given", "POSTGRES_PASSWORD=chosen")
		for name, s := range c.Services {
			for variable, value := range s.Environment {
				if text, ok := value.(string); ok && strings.Contains(strings.ToUpper(variable), "PASSWORD") {
					require.Equal(t, "chosen", text, "%s: %s", name, variable)
				}
			}
		}
		require.Equal(t, "chosen", c.Services["temporal"].Environment["POSTGRES_PWD"])
		require.Contains(t, c.Services["api"].Environment["DATABASE_URL"], "threadmill:chosen@")
		text, err := os.ReadFile("../../docker-compose.yml")
		require.NoError(t, err)
		require.Regexp(t, `(?m)^  OPENAI_API_KEY:$`, string(text), "named, not set")
	})
}

// embedded returns the version of a module that the devserver embeds.
func embedded(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../devserver/go.mod")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(path) + ` v(\S+)`).FindStringSubmatch(string(text))
	require.NotNil(t, found, "devserver/go.mod requires %s", path)
	return found[1]
}
