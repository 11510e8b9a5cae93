// Command filewatch informs an agent of changed files: a watcher publishes an event for each
// change, and a rule runs the agent when no more changes arrive.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

const fileChanged = "file.changed"

// file is the payload of the events, and the input of the agent's tool.
type file struct {
	Path string `json:"path"`
}

// review runs the agent when no file has changed for a second, once for all of them.
var review = rule.Rule{
	Events: []string{fileChanged}, Priority: 30, Debounce: time.Second,
	Agent: &rule.Agent{Name: "assistant", Prompt: "Read the file, and say what is new in it."},
}

// changed returns the event of a file. Its id is derived from the change: a watcher that restarts,
// or runs twice, publishes the same id, which has no effect.
func changed(threadID, folder string, info fs.FileInfo) (event.EnvEvent, error) {
	payload, err := json.Marshal(file{Path: info.Name()})
	return event.EnvEvent{
		ID:        signals.EventID(folder, info.Name(), info.ModTime().UTC().String()),
		Type:      fileChanged,
		Timestamp: info.ModTime().UnixMilli(),
		Metadata:  event.EnvMetadata{TriggerSessionID: threadID, EnvName: "notes", Source: event.SourceEnv},
		Payload:   payload,
	}, err
}

// watch publishes an event for each new or changed file of a folder, until ctx ends.
func watch(ctx context.Context, folder, threadID string, publish func(context.Context, event.EnvEvent) error) error {
	seen := map[string]time.Time{}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil || info.ModTime().Equal(seen[entry.Name()]) {
				continue // already deleted, or unchanged
			}
			e, err := changed(threadID, folder, info)
			if err != nil {
				return err
			}
			if err := publish(ctx, e); err != nil {
				return err
			}
			seen[entry.Name()] = info.ModTime()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// readFile returns the agent's tool, which reads only this folder.
func readFile(folder *os.Root) tool.Tool {
	return tool.MustFunc("read_file", "Reads a file.", func(_ context.Context, _ tool.Call, in file) (string, error) {
		text, err := fs.ReadFile(folder.FS(), in.Path)
		return string(text), err
	}, tool.Quick())
}

// offline is a model that reads the file that has changed, and says what is in it.
func offline() llm.Provider {
	return scripted.New(
		scripted.Answer(func(req llm.Request) scripted.Reply {
			var changed file
			if err := scripted.ReadPayload(req, &changed); err != nil {
				return scripted.Fail(err)
			}
			return scripted.Call("read_file", changed)
		}).OnEvent(fileChanged),
		scripted.Answer(func(req llm.Request) scripted.Reply {
			return scripted.Say("The file says: " + req.Messages[len(req.Messages)-1].Content)
		}),
	)
}

func main() {
	taskQueue := flag.String("task-queue", "example-filewatch", "task queue of the threads")
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
	folder, err := os.MkdirTemp("", "notes")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "assistant", Model: "offline/any", Tools: []string{"read_file"}}},
		Models: map[string]llm.Provider{"offline": offline()},
		Tools:  []tool.Tool{readFile(root)},
		Rules:  []rule.Rule{review},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	threads, id := runtime.Client(), signals.NewID()
	if err := threads.Open(ctx, id, signals.Start{}, nil); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop() // before the folder is removed
	go func() {
		err := watch(watching, folder, id, func(ctx context.Context, e event.EnvEvent) error {
			out, err := runtime.Publish(ctx, e)
			fmt.Printf("%s %s: %s\n", e.Type, e.Payload, out.Status)
			return err
		})
		if err != nil && watching.Err() == nil {
			log.Fatal(err)
		}
	}()
	for _, name := range []string{"monday.txt", "tuesday.txt", "wednesday.txt"} {
		if err := write(folder, name, "It was sunny on "+strings.TrimSuffix(name, ".txt")+"."); err != nil {
			return err
		}
	}
	if err := show(ctx, runtime, records, store.Key{Namespace: threads.Namespace(), ThreadID: id}); err != nil {
		return err
	}
	return runtime.CloseThread(ctx, id)
}

// write creates a complete file in the folder: readers never see a part of it.
func write(folder, name, text string) error {
	draft := filepath.Join(filepath.Dir(folder), filepath.Base(folder)+"."+name)
	if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(folder, name))
}

// show waits until the agent has answered, and prints the agent's context and its reply.
func show(ctx context.Context, runtime *threadmill.Runtime, records store.Store, key store.Key) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		answered, err := records.Records(ctx, key, store.Query{Types: []string{event.TypeFinal}})
		if err != nil {
			return err
		}
		if len(answered) > 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	for m, err := range runtime.Messages(ctx, key.ThreadID) {
		switch {
		case err != nil:
			return err
		case len(m.Parts) > 3:
			held, _, _ := strings.Cut(m.Parts[3].Text, " since ")
			fmt.Printf("%s: %s. %s\n", m.SenderID, m.Parts[0].Text, held)
		case len(m.ToolCalls) > 0 && m.ToolCalls[0].Function.Name == "read_file":
			fmt.Printf("%s calls read_file %s\n", m.SenderID, m.ToolCalls[0].Function.Arguments)
		case m.SenderType == event.CreatedByAgent && m.Content != "":
			fmt.Printf("%s: %s\n", m.SenderID, m.Content)
		}
	}
	return nil
}
