package cli

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/store"
)

// knowledgeCommands are the commands on documents.
type knowledgeCommands struct{ *app }

func (a knowledgeCommands) knowledgeCommand() *cobra.Command {
	return group("knowledge", "Add the documents that agents search, and search them",
		`Add the documents that agents search, list and remove them, and search them as agents do.

A document is named by its source: its URL, or the name of its file. Its id, which "show" prints,
names it too.`,
		a.addCommand(), a.listCommand(), a.showCommand(), a.searchCommand(), a.removeCommand(), a.reindexCommand())
}

func (a knowledgeCommands) listCommand() *cobra.Command {
	var q api.DocumentQuery
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the documents with their statuses",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 {
				return usagef("--limit is %d, must be 1 or more", q.Limit)
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.Documents(ctx, q)
				return a.show(map[string]any{"documents": all}, err, render.Documents(all, render.TableOptions{}), "there are no such documents")
			})
		},
	})
	cmd.Flags().StringVar(&q.Collection, "collection", "", "only documents of this collection")
	cmd.Flags().StringVar((*string)(&q.Status), "status", "", "only documents with this status: processing, indexed or failed")
	cmd.Flags().StringVar(&q.Search, "search", "", "only documents whose source or title contains this text")
	cmd.Flags().IntVar(&q.Limit, "limit", 1000, "how many at most")
	return cmd
}

var documentID = regexp.MustCompile(`^[0-9a-f]{24}$`)

// documentFlag adds the flag that completes a source, and returns what makes an id of an argument.
func documentFlag(cmd *cobra.Command) func(arg string) string {
	collection := cmd.Flags().String("collection", store.DefaultCollection, "the collection of the source")
	return func(arg string) string {
		if documentID.MatchString(arg) {
			return arg
		}
		return store.KnowledgeID(*collection, arg)
	}
}

// explainDocument says how a document that does not exist was looked for.
func explainDocument(cmd *cobra.Command, arg string, err error) error {
	if api.IsNotFound(err) {
		return fmt.Errorf(`there is no document %q in the collection %q: "starter knowledge list" shows the documents`, arg, cmd.Flag("collection").Value.String())
	}
	return err
}

func (a knowledgeCommands) showCommand() *cobra.Command {
	var from, limit int
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "show <document>",
		Short: "Show a document and its chunks",
	})
	id := documentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from < 0 || from > math.MaxInt32 {
			return usagef("--from is %d, must be the number of a chunk", from)
		}
		if limit < 0 || limit > store.MaxKnowledgeBatch {
			return usagef("--limit is %d, must be 0 to %d", limit, store.MaxKnowledgeBatch)
		}
		return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
			doc, err := client.Document(ctx, id(args[0]))
			if err != nil {
				return explainDocument(cmd, args[0], err)
			}
			var chunks []api.Chunk
			next := 0
			if limit > 0 {
				chunks, next, err = client.Chunks(ctx, doc.ID, from, limit)
			}
			return a.show(map[string]any{"document": doc, "chunks": chunks}, err, render.Document(doc, chunks, next > 0, render.TableOptions{}), "")
		})
	}
	cmd.Flags().IntVar(&from, "from", 0, "the first chunk to show")
	cmd.Flags().IntVar(&limit, "limit", 10, "how many chunks to show")
	return cmd
}

func (a knowledgeCommands) searchCommand() *cobra.Command {
	var collections []string
	var limit int
	var full bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "search <text> [text…]",
		Short: "Find the passages that fit a text best, as agents do",
		Example: `  starter knowledge search how many days of vacation
  starter knowledge search --collection guides --limit 10 "refund of a ticket"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > maxPassages {
				return usagef("--limit is %d, must be 1 to %d", limit, maxPassages)
			}
			opts := render.TableOptions{}
			if full {
				opts.Width = math.MaxInt
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				found, err := client.SearchKnowledge(ctx, strings.Join(args, " "), collections, limit)
				err = a.show(found, err, render.Passages(found.Passages, opts), "nothing is found")
				if err == nil && !a.json && found.Warning != "" {
					a.warn("warning: %s", found.Warning)
				}
				return err
			})
		},
	})
	cmd.Flags().StringArrayVar(&collections, "collection", nil, "search this collection (repeatable; default: all)")
	cmd.Flags().IntVar(&limit, "limit", 5, "how many passages at most")
	cmd.Flags().BoolVar(&full, "full", false, "print whole passages")
	return cmd
}

// maxPassages is the limit of the API.
const maxPassages = 50

func (a knowledgeCommands) removeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove <document>",
		Short: "Remove a document, with everything that was made from it",
	}
	id := documentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
			err := explainDocument(cmd, args[0], client.DeleteDocument(ctx, id(args[0])))
			return a.show(nil, err, line("%s removed", args[0]), "")
		})
	}
	return cmd
}

func (a knowledgeCommands) reindexCommand() *cobra.Command {
	var noWait bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "reindex <document>",
		Short: "Index a document again, although it has not changed",
		Long: `Index a document again, although it has not changed: after the embedder or the size of chunks has
changed. What came from a URL is fetched again; what was uploaded is read from the store.`,
	})
	id := documentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.ingest(cmd.Context(), !noWait, []addition{{source: args[0], send: func(ctx context.Context, client *api.Client) (store.KnowledgeDocument, error) {
			doc, err := client.ReindexDocument(ctx, id(args[0]))
			return doc, explainDocument(cmd, args[0], err)
		}}}, nil)
	}
	noWaitFlag(cmd, &noWait)
	return cmd
}

func noWaitFlag(cmd *cobra.Command, noWait *bool) {
	cmd.Flags().BoolVar(noWait, "no-wait", false, "do not wait until the documents are indexed")
}
