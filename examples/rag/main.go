// Command rag answers questions about the documents of a folder, with citations.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/document/formats"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/openai"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
)

//go:embed handbook
var handbook embed.FS

// configuration declares an agent that is given the passages that fit a question best. Without an API key, documents are found by
// their words alone, and a stand-in quotes them.
func configuration(records store.Store, knowledge threadmill.Knowledge) (threadmill.Config, error) {
	cfg := threadmill.Config{
		Store:     records,
		Knowledge: knowledge,
		Models:    map[string]llm.Provider{"offline": offline()},
		Agents: []agent.Agent{{
			Name:         "librarian",
			Instructions: "Answer from the passages only. Say so if they do not answer the question.",
			Model:        "offline/quotes",
			Knowledge:    agent.Knowledge{Passages: 4},
		}},
	}
	key := os.Getenv("OPENAI_API_KEY")
	if key == "" {
		return cfg, nil
	}
	model, err := openai.New(openai.Config{APIKey: key})
	if err != nil {
		return cfg, err
	}
	cfg.Models["openai"] = model
	cfg.Agents[0].Model = "openai/gpt-5.6-luna"
	cfg.Knowledge.Embedder = "openai/text-embedding-3-small"
	return cfg, nil
}

func main() {
	taskQueue := flag.String("task-queue", "example-rag", "task queue of the threads")
	folder := flag.String("folder", "", "folder with the documents; default: the handbook of the example")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	documents, err := fs.Sub(handbook, "handbook")
	if err != nil {
		log.Fatal(err)
	}
	knowledge := threadmill.Knowledge{Reader: formats.Reader(), ChunkTokens: 32, OverlapTokens: -1} // the sections of the handbook are short
	if *folder != "" {
		documents, knowledge = os.DirFS(*folder), threadmill.Knowledge{Reader: formats.Reader()}
	}
	questions := flag.Args()
	if len(questions) == 0 {
		questions = []string{
			"How much may a hotel cost?",
			"How many days of vacation do I have, and when does the office in Lyon open?",
		}
	}
	if err := run(ctx, *taskQueue, documents, knowledge, questions); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string, folder fs.FS, knowledge threadmill.Knowledge, questions []string) error {
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()
	cfg, err := configuration(records, knowledge)
	if err != nil {
		return err
	}
	// Documents belong to a namespace. With one of its own, the program shares none with a server that uses the same Temporal.
	cfg.TaskQueue, cfg.Namespace = taskQueue, taskQueue
	runtime, err := threadmill.New(cfg)
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	if err := addFolder(ctx, runtime.Documents(), folder); err != nil {
		return err
	}
	id := signals.NewID()
	for _, question := range questions {
		if err := ask(ctx, runtime, id, question); err != nil {
			return err
		}
	}
	return runtime.CloseThread(ctx, id)
}

// addFolder adds all files of a folder, and waits until they are indexed. One that cannot be read is reported, and the others are
// indexed anyway.
func addFolder(ctx context.Context, documents *threadmill.Documents, folder fs.FS) error {
	var ids []string
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(folder, path)
		if err != nil {
			return err
		}
		added, err := documents.Add(ctx, threadmill.NewDocument{Source: path, Content: content})
		ids = append(ids, added.ID)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		d, err := documents.Await(ctx, id)
		if err != nil && d.Status != store.KnowledgeFailed {
			return err
		}
		fmt.Printf("%s: %s %s\n", d.Source, d.Status, d.Format+d.Error)
	}
	return nil
}

// ask asks a question, and prints the answer with the sources that it cites.
func ask(ctx context.Context, runtime *threadmill.Runtime, threadID, question string) error {
	turn, err := runtime.Send(ctx, event.NewMessage{ThreadID: threadID, SenderID: "ann", Content: question}, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("\nann: %s\n", question)
	var passages []event.Passage
	for e, err := range turn.Events() {
		if err != nil {
			return err
		}
		switch {
		case e.Type == event.EventRetrieval:
			passages = e.Retrieval.Passages
		case e.Type == event.EventMessage && e.Message.SenderType == event.CreatedByAgent:
			fmt.Printf("%s: %s\n", e.Message.SenderID, e.Message.Content)
			printSources(e.Message.Content, passages)
		}
	}
	_, err = turn.Wait(ctx)
	return err
}

var citation = regexp.MustCompile(`\[(\d+)\]`)

// printSources prints where the citations of an answer lead. A model may cite a passage that it was not given.
func printSources(answer string, passages []event.Passage) {
	printed := map[int]bool{}
	for _, cited := range citation.FindAllStringSubmatch(answer, -1) {
		n, err := strconv.Atoi(cited[1])
		if err != nil || n < 1 || n > len(passages) || printed[n] {
			continue
		}
		printed[n] = true
		fmt.Printf("  [%d] %s\n", n, strings.Join(append([]string{passages[n-1].Source}, passages[n-1].Path...), " > "))
	}
}
