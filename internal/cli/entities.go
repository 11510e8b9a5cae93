package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/cli/render"
	"github.com/threadmill/threadmill/store"
)

// entityCommands are the commands on people and things.
type entityCommands struct{ *app }

func (a entityCommands) entitiesCommand() *cobra.Command {
	return group("entities", "Show and correct the people and things that messages mention",
		`Show and correct the people and things that messages mention: those that agents with
knowledge.entities are told about.

An entity is named by its id or, if only one has it, by its name in upper or lower case.`,
		a.listCommand(), a.showCommand(), a.mergeCommand(), a.mergesCommand(), a.undoCommand(), a.removeCommand())
}

func (a entityCommands) listCommand() *cobra.Command {
	var q api.EntityQuery
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "list",
		Short: "List the entities, those with the most mentions first",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 {
				return usagef("--limit is %d, must be 1 or more", q.Limit)
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.Entities(ctx, q)
				return a.show(map[string]any{"entities": all}, err, render.Entities(all, render.TableOptions{}), "there are no such entities")
			})
		},
	})
	cmd.Flags().StringVar(&q.Type, "type", "", "only entities of this type, such as person")
	cmd.Flags().StringVar(&q.Search, "search", "", "only entities of which a name contains this text")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "how many at most")
	return cmd
}

// find returns the entity that an argument names.
func (a entityCommands) find(ctx context.Context, client *api.Client, arg string) (api.EntityView, error) {
	known, err := client.Entity(ctx, arg)
	if !api.IsNotFound(err) {
		return known, err
	}
	similar, err := client.Entities(ctx, api.EntityQuery{Search: arg, Limit: store.MaxEntityPage})
	if err != nil {
		return known, err
	}
	var named []string
	for _, e := range similar {
		if slices.ContainsFunc(append(e.Aliases, e.Name), func(name string) bool { return strings.EqualFold(name, arg) }) {
			named = append(named, e.ID)
		}
	}
	switch {
	case len(named) == 0 && len(similar) == store.MaxEntityPage:
		return known, fmt.Errorf(`there are too many names that contain %q: use the id, which "starter entities list" shows`, arg)
	case len(named) == 0:
		return known, fmt.Errorf(`there is no entity %q: "starter entities list" shows the entities`, arg)
	case len(named) == 1:
		return client.Entity(ctx, named[0])
	}
	return known, fmt.Errorf("%d entities are named %q: use one of their ids, %s", len(named), arg, strings.Join(named, ", "))
}

func (a entityCommands) showCommand() *cobra.Command {
	var limit int
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "show <entity>",
		Short: "Show an entity with its mentions, relations and merges",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit is %d, must be 0 or more", limit)
			}
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				entity, err := a.find(ctx, client, args[0])
				if err != nil {
					return err
				}
				mentions, err := client.Mentions(ctx, entity.ID, limit)
				return a.show(map[string]any{"entity": entity, "mentions": mentions}, err, render.Entity(entity, mentions, render.TableOptions{}), "")
			})
		},
	})
	cmd.Flags().IntVar(&limit, "limit", 20, "how many mentions to show")
	return cmd
}

func (a entityCommands) mergeCommand() *cobra.Command {
	var by string
	cmd := a.jsonFlag(&cobra.Command{
		Use:     "merge <entity> <into>",
		Short:   "Merge an entity into another one, because both are the same",
		Long:    `Merge an entity into another one, because both are the same. It keeps its own mentions, so that the merge can be undone.`,
		Example: `  starter entities merge "J. Doe" "Jane Doe"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				from, err := a.find(ctx, client, args[0])
				if err != nil {
					return err
				}
				into, err := a.find(ctx, client, args[1])
				if err != nil {
					return err
				}
				if from.ID == into.ID {
					return a.show(map[string]any{"entity": from}, nil, line("%s and %s are one entity already: %s", args[0], args[1], from.ID), "")
				}
				merge, err := client.MergeEntity(ctx, from.ID, into.ID, by)
				return a.show(merge, err, line("%s is merged into %s (undo: starter entities undo %s)", from.Name, into.Name, merge.ID), "")
			})
		},
	})
	byFlag(cmd, "by", &by, "who merges them", a.apiActor)
	return cmd
}

func (a entityCommands) mergesCommand() *cobra.Command {
	return a.jsonFlag(&cobra.Command{
		Use:   "merges",
		Short: "List the newest merges, and who decided them",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.EntityMerges(ctx)
				return a.show(map[string]any{"merges": all}, err, render.EntityMerges(all, render.TableOptions{}), "nothing was merged")
			})
		},
	})
}

func (a entityCommands) undoCommand() *cobra.Command {
	var by string
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "undo <merge>",
		Short: "Undo a merge, because the entities differ",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				merge, err := client.UndoMerge(ctx, args[0], by)
				if api.IsNotFound(err) {
					err = fmt.Errorf(`there is no merge %q: "starter entities merges" shows the merges`, args[0])
				}
				return a.show(merge, err, line("the merge of %s into %s is undone", merge.FromName, merge.IntoName), "")
			})
		},
	})
	byFlag(cmd, "by", &by, "who undoes it", a.apiActor)
	return cmd
}

func (a entityCommands) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove <entity>",
		Short: "Remove an entity with everything that was merged into it, and its mentions",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onAPI(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				entity, err := a.find(ctx, client, args[0])
				if err == nil && args[0] != entity.ID && !strings.EqualFold(args[0], entity.Name) {
					return fmt.Errorf("%s was merged into %s: undo the merge, or name that one to remove both", args[0], entity.Name)
				}
				if err == nil {
					err = client.DeleteEntity(ctx, entity.ID)
				}
				return a.show(nil, err, line("%s removed", entity.Name), "")
			})
		},
	}
}
