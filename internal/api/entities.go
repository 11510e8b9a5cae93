package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/threadmill/threadmill/store"
)

// EntityQuery selects entities.
type EntityQuery struct {
	Type   string
	Search string

	// Limit is the maximum number of entities.
	Limit int
}

// Entities lists the people and things that messages mention, those with the most mentions first.
func (c *Client) Entities(ctx context.Context, q EntityQuery) ([]store.Entity, error) {
	query := url.Values{}
	for name, value := range map[string]string{"type": q.Type, "search": q.Search} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return listed(query, q.Limit, store.MaxEntityPage, func(query url.Values) ([]store.Entity, string, error) {
		page, err := call[struct {
			Entities []store.Entity `json:"entities"`
			Next     string         `json:"next"`
		}](ctx, c, http.MethodGet, c.url(query, "entities"), nil, "listing the entities")
		return page.Entities, page.Next, err
	})
}

// listed collects at most limit things from pages, each of which has at most size of them and names the cursor of the next one.
func listed[T any](query url.Values, limit, size int, read func(url.Values) ([]T, string, error)) ([]T, error) {
	var all []T
	for len(all) < limit {
		query.Set("limit", strconv.Itoa(min(limit-len(all), size)))
		page, next, err := read(query)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if next == "" || next == query.Get("cursor") {
			break
		}
		query.Set("cursor", next)
	}
	return all, nil
}

// EntityView is a person or a thing, with its relations and merges.
type EntityView struct {
	store.Entity
	Relations []store.Relation    `json:"relations" nullable:"false" doc:"Its relations to others, the newest first"`
	Merges    []store.EntityMerge `json:"merges" nullable:"false" doc:"The merges of it and into it, the newest first; undone ones too"`
}

// Entity returns an entity, or the one that it was merged into.
func (c *Client) Entity(ctx context.Context, id string) (EntityView, error) {
	return call[EntityView](ctx, c, http.MethodGet, c.url(nil, "entities", id), nil, "reading entity %q", id)
}

// Mentions returns at most limit mentions of an entity, the newest first.
func (c *Client) Mentions(ctx context.Context, id string, limit int) ([]store.Mention, error) {
	return listed(url.Values{}, limit, store.MaxEntityPage, func(query url.Values) ([]store.Mention, string, error) {
		page, err := call[struct {
			Mentions []store.Mention `json:"mentions"`
			Next     string          `json:"next"`
		}](ctx, c, http.MethodGet, c.url(query, "entities", id, "mentions"), nil, "reading the mentions of entity %q", id)
		return page.Mentions, page.Next, err
	})
}

// MergeEntity merges an entity into another one. By is left out for principals.
func (c *Client) MergeEntity(ctx context.Context, id, into, by string) (store.EntityMerge, error) {
	body := map[string]string{"into": into}
	if by != "" {
		body["by"] = by
	}
	return call[store.EntityMerge](ctx, c, http.MethodPost, c.url(nil, "entities", id, "merge"), body, "merging entity %q", id)
}

// EntityMerges returns the newest merges.
func (c *Client) EntityMerges(ctx context.Context) ([]store.EntityMerge, error) {
	out, err := call[struct {
		Merges []store.EntityMerge `json:"merges"`
	}](ctx, c, http.MethodGet, c.url(nil, "entity-merges"), nil, "listing the merges")
	return out.Merges, err
}

// UndoMerge undoes a merge. By is left out for principals.
func (c *Client) UndoMerge(ctx context.Context, id, by string) (store.EntityMerge, error) {
	body := map[string]string{}
	if by != "" {
		body["by"] = by
	}
	return call[store.EntityMerge](ctx, c, http.MethodPost, c.url(nil, "entity-merges", id, "undo"), body, "undoing merge %q", id)
}

// DeleteEntity deletes an entity with everything that was merged into it.
func (c *Client) DeleteEntity(ctx context.Context, id string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, c.url(nil, "entities", id), nil, "deleting entity %q", id)
	return err
}
