package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/threadmill/threadmill/internal/term"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/starter/internal/api"
)

// misspelledError is an error about a name that is near others.
type misspelledError struct {
	err  error
	near []string
}

func (e *misspelledError) Error() string { return e.err.Error() + didYouMean(e.near) }
func (e *misspelledError) Unwrap() error { return e.err }

// didYouMean returns the end of an error's sentence, or "" without names.
func didYouMean(near []string) string {
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + term.Line(strings.Join(near, ", ")) + "?"
}

// misspelled adds the names to an error that are near the one it is about.
func misspelled(err error, name string, known []string) error {
	if near := near(name, known); len(near) > 0 {
		return &misspelledError{err, near}
	}
	return err
}

// nearNames returns the names that [misspelled] added.
func nearNames(err error) []string {
	if with, ok := errors.AsType[*misspelledError](err); ok {
		return with.near
	}
	return nil
}

// near returns the names that differ from name in a few letters, or only begin with it, the nearest
// first.
func near(name string, known []string) []string {
	const most = 3 // names
	distance := func(other string) int {
		return levenshtein.ComputeDistance(strings.ToLower(name), strings.ToLower(other))
	}
	out := slices.DeleteFunc(slices.Clone(known), func(other string) bool {
		begins := len(name) > 2 && strings.HasPrefix(strings.ToLower(other), strings.ToLower(name))
		return name == "" || !begins && distance(other) > min(len(name)/2, 3)
	})
	slices.SortStableFunc(out, func(a, b string) int { return distance(a) - distance(b) })
	return out[:min(len(out), most)]
}

// nearThread adds the threads to an error whose ids are near the one it is about.
func nearThread(ctx context.Context, t lifecycle, err error) error {
	wrong, ok := errors.AsType[*threadError](err)
	if !ok || !errors.Is(err, signals.ErrThreadNotFound) && !api.IsNotFound(err) {
		return err
	}
	found, problem := t.List(ctx, threadclient.ListQuery{All: true, Limit: threadclient.MaxListLimit})
	if problem != nil {
		return err
	}
	var ids []string
	for _, one := range found {
		ids = append(ids, one.ThreadID)
	}
	return misspelled(err, wrong.thread, ids)
}

// nearAgent adds the agents to an error whose names are near the one that was not found.
func nearAgent(ctx context.Context, stored *api.Client, name string, err error) error {
	if !api.IsNotFound(err) {
		return err
	}
	all, problem := stored.Agents(ctx)
	if problem != nil {
		return err
	}
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	return misspelled(err, name, names)
}
