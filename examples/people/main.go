// Command people runs an assistant that knows who people are: what messages of one thread say about them answers a question in
// another one. It prints what the assistant has learned, and undoes a wrong merge.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

// configuration declares an assistant that learns about people and things. A model finds them in messages, and an embedder
// compares their names; with a real provider, these are openai/gpt-5.6-luna and openai/text-embedding-3-small, for example.
func configuration(records store.Store) threadmill.Config {
	return threadmill.Config{
		Store:  records,
		Models: map[string]llm.Provider{"offline": newOffline()},
		Agents: []agent.Agent{{
			Name:         "assistant",
			Instructions: "You help.",
			Model:        "offline/assistant",
			Knowledge:    agent.Knowledge{Entities: true},
		}},
		Knowledge: threadmill.Knowledge{EntityModel: "offline/finder", Embedder: "offline/letters"},
	}
}

func main() {
	taskQueue := flag.String("task-queue", "example-people", "task queue of the threads")
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
	cfg := configuration(records)
	// People belong to a namespace. With one of its own, the program shares none with a server that uses the same Temporal.
	cfg.TaskQueue, cfg.Namespace = taskQueue, taskQueue
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()
	t := &talk{runtime: runtime, entities: records, namespace: taskQueue}
	return t.run(ctx)
}

// talk talks to the assistant and shows what it knows.
type talk struct {
	runtime   *threadmill.Runtime
	entities  store.Entities
	namespace string
}

func (t *talk) run(ctx context.Context) error {
	first, second := signals.NewID(), signals.NewID()
	if err := t.say(ctx, first, "ann",
		"Mira Stone leads the Halden project. She likes trains.",
		"Mora Stein signs the contracts of Halden. Ask her before you order."); err != nil {
		return err
	}
	if err := t.show(ctx); err != nil {
		return err
	}
	if err := t.undo(ctx, "ann"); err != nil {
		return err
	}
	if err := t.say(ctx, second, "bob", "Who is Mora Stein?"); err != nil {
		return err
	}
	if err := t.show(ctx); err != nil {
		return err
	}
	for _, id := range []string{first, second} {
		if err := t.runtime.CloseThread(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// say posts messages to a thread, and prints them with the replies.
func (t *talk) say(ctx context.Context, threadID, sender string, messages ...string) error {
	start := signals.Start{Title: "the thread of " + sender}
	for _, content := range messages {
		turn, err := t.runtime.Send(ctx, event.NewMessage{ThreadID: threadID, SenderID: sender, Content: content}, threadmill.SendOptions{Start: start})
		if err != nil {
			return err
		}
		result, err := turn.Wait(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n%s: %s\n", sender, content, result.Message.SenderID, result.Message.Content)
	}
	return nil
}

// learned waits until nothing is left to learn from the messages so far: no thread has to.
func (t *talk) learned(ctx context.Context) error {
	for {
		queued, err := t.entities.Extractions(ctx, t.namespace, 1)
		if err != nil || len(queued) == 0 {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// show prints who and what is known, with the sentences that mention them.
func (t *talk) show(ctx context.Context) error {
	if err := t.learned(ctx); err != nil {
		return err
	}
	known, err := t.entities.Entities(ctx, t.namespace, store.EntityPage{})
	if err != nil {
		return err
	}
	slices.SortFunc(known, func(a, b store.Entity) int { return strings.Compare(a.Name, b.Name) })
	fmt.Println("\nknown:")
	for _, e := range known {
		fmt.Printf("- %s\n", strings.Join(append([]string{e.Name + " (" + e.Type + ")"}, e.Descriptions...), "; "))
		if len(e.Aliases) > 0 {
			fmt.Printf("  also called %s\n", strings.Join(e.Aliases, ", "))
		}
		mentions, err := t.entities.Mentions(ctx, t.namespace, e.ID, store.MentionPage{})
		if err != nil {
			return err
		}
		for _, m := range mentions {
			fmt.Printf("  %q\n", m.Text)
		}
	}
	fmt.Println()
	return nil
}

// undo undoes all merges: to merge is a guess, and each entity keeps its own mentions.
func (t *talk) undo(ctx context.Context, by string) error {
	merges, err := t.entities.Merges(ctx, t.namespace, "")
	if err != nil {
		return err
	}
	for _, m := range merges {
		fmt.Printf("%s was merged into %s (by %s, similarity %.2f): undone by %s\n\n", m.FromName, m.IntoName, m.By, m.Similarity, by)
		if _, err := t.entities.UndoMerge(ctx, t.namespace, m.ID, by); err != nil {
			return err
		}
	}
	return nil
}
