package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/threadmill/threadmill/internal/config"
	"github.com/threadmill/threadmill/internal/program"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
)

const (
	readyWithin = 30 * time.Second
	lookEvery   = 10 * time.Millisecond
)

// awaitReady waits until the API responds and the worker accepts tasks.
func (s *server) awaitReady(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		err := errors.Join(s.apiAnswers(within), s.workerPolls(within))
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case failed := <-s.web.Failed():
			return failed
		case failed := <-s.worker.Failed():
			return failed
		case <-within.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("not ready within %s: %w", readyWithin, err)
		}
	}
}

func (s *server) apiAnswers(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.web.URL()+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the API answers %s", res.Status)
	}
	return nil
}

func (s *server) workerPolls(ctx context.Context) error {
	queue, err := s.client.DescribeTaskQueue(ctx, signals.DefaultTaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return err
	}
	if len(queue.GetPollers()) == 0 {
		return errors.New("the worker accepts no tasks")
	}
	return nil
}

// announce prints the addresses and the next command.
func (s *server) announce(out io.Writer) {
	fmt.Fprintln(out, "Threadmill is ready.")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("Page", "%s", s.web.URL())
	row("API", "%s", s.web.URL())
	row("API docs", "%s/docs", s.web.URL())
	if url := s.temporal.UIURL(); url != "" {
		row("Temporal UI", "%s", url)
	}
	row("Temporal", "%s, namespace %s", s.temporal.Addr(), s.temporal.Namespace())
	row("Data", "%s", s.whereData())
	if s.config != "" {
		row("Configuration", "%s", s.config)
	}
	row("Agents", "%s", s.whichAgents())
	if len(s.settings.File.Hooks) > 0 {
		row("Hooks", "%s; each needs a worker there", s.settings.WhichHooks())
	}
	// Nothing is written before Flush, and its error has no reader.
	_ = w.Flush()
	fmt.Fprintf(out, "\nTalk to it:  %s\n", s.chat())
}

func (s *server) whereData() string {
	where := s.data
	if s.memory {
		where = "in memory"
	}
	if os.Getenv(program.EnvDatabaseURL) != "" {
		where += ", records in PostgreSQL (" + program.EnvDatabaseURL + ")"
	}
	if os.Getenv(program.EnvNATSURL) != "" {
		where += ", live stream over NATS (" + program.EnvNATSURL + ")"
	}
	return where
}

func (s *server) whichAgents() string {
	names := make([]string, 0, len(s.settings.File.Agents))
	for _, a := range s.settings.File.Agents {
		names = append(names, a.Name+" ("+a.Model+")")
	}
	text := strings.Join(names, ", ")
	if s.config == "" && s.settings.File.Agents[0].Model == config.Demo+"/"+config.Demo {
		text += "; the model is an offline stand-in: set " + config.EnvAPIKey + " for a real one"
	}
	return text
}

// chat returns the command that connects to this server.
func (s *server) chat() string {
	cmd := "go run ./starter chat"
	if s.temporal.Addr() != embedded.DefaultAddr {
		cmd += " --address " + s.temporal.Addr()
	}
	if s.web.URL() != "http://"+defaultHTTP {
		cmd += " --api " + s.web.URL()
	}
	return cmd
}
