// Package scheduleversions keeps the versions of schedules, of which Temporal has the newest only: what a schedule posts, to which thread
// and when. Whether it is paused, its note and its remaining runs belong to no version.
//
// The versions of a schedule are one document of the store. They are noted by whoever changes a schedule through the API, before and after
// the change, so that the version before it is kept whoever made it.
package scheduleversions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
)

// Kind is the kind of the documents. The name of one is the id of its schedule.
const Kind = "schedule-versions"

// Limits of the versions of one schedule. The oldest ones are dropped.
const (
	Max      = 100
	maxBytes = 1 << 20
)

// Version is a version of a schedule.
type Version struct {
	Version int `json:"version"`

	// Definition is nil if the schedule was deleted.
	Definition *signals.Schedule `json:"definition,omitempty"`

	// By is who made the version; empty if the change was not made through the API.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
}

// Versions are the versions of a schedule, the newest last.
type Versions []Version

// Newest returns the newest version, or the zero Version.
func (v Versions) Newest() Version {
	if len(v) == 0 {
		return Version{}
	}
	return v[len(v)-1]
}

// With returns the versions with one more, unless the newest one has the same definition; nil means that the schedule is deleted.
func (v Versions) With(definition *signals.Schedule, by string, at time.Time) Versions {
	definition = lasting(definition)
	newest := v.Newest()
	if same(newest.Definition, definition) {
		return v
	}
	next := append(slices.Clone(v), Version{Version: newest.Version + 1, Definition: definition, By: by, At: at})
	return next[max(0, len(next)-Max):]
}

// lasting returns the definition without what changes while the schedule runs.
func lasting(s *signals.Schedule) *signals.Schedule {
	if s == nil {
		return nil
	}
	out := *s
	out.Paused, out.Note, out.Remaining = false, "", 0
	return &out
}

// same reports whether two definitions have the same JSON form, in which they are stored.
func same(a, b *signals.Schedule) bool {
	one, err := json.Marshal(a)
	if err != nil {
		return false
	}
	other, err := json.Marshal(b)
	return err == nil && bytes.Equal(one, other)
}

// Read returns the versions of a schedule that were noted: none if it was never changed through the API.
func Read(ctx context.Context, documents store.Documents, namespace, id string) (Versions, error) {
	versions, _, err := read(ctx, documents, namespace, id)
	return versions, err
}

func read(ctx context.Context, documents store.Documents, namespace, id string) (Versions, int, error) {
	d, err := documents.Document(ctx, namespace, Kind, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	versions, err := decode(d)
	return versions, d.Version, err
}

func decode(d store.Document) (versions Versions, err error) {
	if err := json.Unmarshal(d.Content, &versions); err != nil {
		return nil, fmt.Errorf("the versions of schedule %q cannot be read: %w", d.Name, err)
	}
	return versions, nil
}

// Note adds a version as [Versions.With] does, and returns all.
func Note(ctx context.Context, documents store.Documents, namespace, id string, definition *signals.Schedule, by string, at time.Time) (Versions, error) {
	return change(ctx, documents, namespace, id, func(v Versions) Versions { return v.With(definition, by, at) })
}

// change replaces the versions of a schedule. It calls edit again if they were changed meanwhile.
func change(ctx context.Context, documents store.Documents, namespace, id string, edit func(Versions) Versions) (Versions, error) {
	for {
		before, at, err := read(ctx, documents, namespace, id)
		if err != nil {
			return nil, err
		}
		after := edit(before)
		if err = put(ctx, documents, namespace, id, before, after, at); err == nil {
			return after, nil
		}
		if conflict, ok := errors.AsType[*store.ConflictError](err); !ok || conflict == nil {
			return nil, err
		}
	}
}

func put(ctx context.Context, documents store.Documents, namespace, id string, before, after Versions, at int) error {
	raw, err := json.Marshal(after)
	if err != nil {
		return err
	}
	for len(raw) > maxBytes && len(after) > 1 {
		after = after[1:]
		if raw, err = json.Marshal(after); err != nil {
			return err
		}
	}
	switch {
	case len(after) == 0 && at == 0:
		return nil
	case len(after) == 0:
		err = documents.DeleteDocument(ctx, namespace, Kind, id, at)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	if old, err := json.Marshal(before); err == nil && bytes.Equal(old, raw) {
		return nil
	}
	_, err = documents.PutDocument(ctx, namespace, store.Document{Kind: Kind, Name: id, Content: raw}, at)
	return err
}

// pageSize is the number of documents that Edit reads at once.
const pageSize = 20

// Edit changes the versions of all schedules of a namespace: edit is called for each version, and drops it by returning false. Of a schedule
// without a definition, nothing is left.
func Edit(ctx context.Context, documents store.Documents, namespace string, edit func(*Version) (keep bool)) error {
	for after := ""; ; {
		page, err := documents.Documents(ctx, namespace, Kind, after, pageSize)
		if err != nil {
			return err
		}
		for _, d := range page {
			_, err := change(ctx, documents, namespace, d.Name, func(v Versions) Versions {
				kept, defined := Versions{}, false
				for _, one := range v {
					if edit(&one) {
						kept, defined = append(kept, one), defined || one.Definition != nil
					}
				}
				if !defined {
					return nil
				}
				return kept
			})
			if err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
		after = page[len(page)-1].Name
	}
}
