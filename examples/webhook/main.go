// Command webhook lets another system reach an agent: a push to a repository, reported by GitHub,
// becomes an event in the repository's thread, and a rule runs the agent.
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/webhook"
)

// source configures GitHub's signature and the resulting event. A real program reads its secret
// from the environment.
func source(secret string) webhook.Endpoint {
	return webhook.Endpoint{
		Name:      "github",
		Signature: webhook.Signature{Scheme: webhook.SchemeGitHub},
		Secrets:   []webhook.Secret{webhook.Secret(secret)},
		Event: webhook.Event{
			Type:   "github.{header.X-GitHub-Event}",
			Thread: "{payload.repository.name}",
		},
	}
}

// rules run the agent for pushes to one branch. All other events are only stored.
var rules = []rule.Rule{
	{
		Name: "pushes", Events: []string{"github.push"}, Priority: 30,
		Where: []rule.Condition{{Field: "payload.ref", Equals: "refs/heads/main"}},
		Agent: &rule.Agent{Prompt: "Look at the newest commit, and say in one sentence what it changes."},
	},
	{Name: "the rest", Events: []string{"github.*"}, Priority: 20},
}

// push is a part of GitHub's payload.
type push struct {
	Ref        string     `json:"ref"`
	Repository repository `json:"repository"`
	After      string     `json:"after"` // the newest commit
}

type repository struct {
	Name string `json:"name"`
}

type commit struct {
	Commit string `json:"commit"`
}

var showCommit = tool.MustFunc("show_commit", "Shows a commit.",
	func(_ context.Context, _ tool.Call, in commit) (string, error) {
		return in.Commit + ": let the kettle boil", nil
	}, tool.Quick())

// offline is a model that looks at the commit of a push, and says what it is about.
func offline() llm.Provider {
	return scripted.New(
		scripted.Answer(func(req llm.Request) scripted.Reply {
			var pushed push
			if err := scripted.ReadPayload(req, &pushed); err != nil {
				return scripted.Fail(err)
			}
			return scripted.Call("show_commit", commit{Commit: pushed.After})
		}).OnEvent("github.push"),
		scripted.Answer(func(req llm.Request) scripted.Reply {
			return scripted.Say("I have seen " + req.Messages[len(req.Messages)-1].Content)
		}),
	)
}

func main() {
	taskQueue := flag.String("task-queue", "example-webhook", "task queue of the threads")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *taskQueue); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string) error {
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()
	secret := signals.NewID()
	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "reviewer", Model: "offline/any", Tools: []string{"show_commit"}}},
		Models: map[string]llm.Provider{"offline": offline()},
		Tools:  []tool.Tool{showCommit},
		Rules:  rules,
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()
	api, err := httpapi.New(runtime, httpapi.Config{Webhooks: []webhook.Endpoint{source(secret)}})
	if err != nil {
		return err
	}
	address, err := serve(ctx, api)
	if err != nil {
		return err
	}

	// A repository's thread has its name.
	threads, shop := runtime.Client(), repository{Name: "shop-" + signals.NewID()}
	if err := threads.Open(ctx, shop.Name, signals.Start{}, nil); err != nil {
		return err
	}
	g := github{address: address + "/v1/webhooks/github", secret: secret}
	if err := g.play(ctx, shop); err != nil {
		return err
	}
	for _, delivery := range []string{"delivery-1", "delivery-2"} {
		if err := show(ctx, threads, shop.Name, delivery); err != nil {
			return err
		}
	}
	return runtime.CloseThread(ctx, shop.Name)
}

// serve serves the API until ctx ends, and returns its address.
func serve(ctx context.Context, handler http.Handler) (string, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	return "http://" + l.Addr().String(), nil
}

// github simulates GitHub.
type github struct{ address, secret string }

func (g github) play(ctx context.Context, repo repository) error {
	first := push{Ref: "refs/heads/main", Repository: repo, After: "3f9a2c1"}
	forged := g
	forged.secret = "guessed"
	for _, delivery := range []struct {
		what, id string
		from     github
		push     push
	}{
		{"a forged push", "delivery-0", forged, first},
		{"a push to main", "delivery-1", g, first},
		{"the same, delivered again", "delivery-1", g, first},
		{"a push to a branch", "delivery-2", g, push{Ref: "refs/heads/kettle", Repository: repo, After: "77d0b4e"}},
	} {
		answer, err := delivery.from.deliver(ctx, delivery.id, delivery.push)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", delivery.what, answer)
	}
	return nil
}

// deliver sends a push, signed with the secret, and returns the response.
func (g github) deliver(ctx context.Context, id string, p push) (string, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, []byte(g.secret))
	mac.Write(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.address, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Event", "push")
	req.Header.Set("X-GitHub-Delivery", id)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var answer struct {
		Status any    `json:"status"`
		Detail string `json:"detail"` // of an error
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Detail != "" {
		return fmt.Sprintf("%d, %s", res.StatusCode, answer.Detail), nil
	}
	return fmt.Sprintf("%d, %v", res.StatusCode, answer.Status), nil
}

// show prints the effect of an event that the thread already has.
func show(ctx context.Context, threads *threadclient.Client, threadID, eventID string) error {
	turn, err := threads.Turn(ctx, threadID, signals.Post{ID: eventID})
	if err != nil {
		return err
	}
	if turn.Message == nil {
		fmt.Printf("%s: %s, and nobody was woken\n", eventID, turn.Status)
		return nil
	}
	fmt.Printf("%s: %s: %s\n", eventID, turn.Message.SenderID, turn.Message.Content)
	return nil
}
