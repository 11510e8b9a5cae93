package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/names/near"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
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
	if names := near.To(name, known); len(names) > 0 {
		return &misspelledError{err, names}
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
	all, problem := stored.Agents(ctx, api.AllAgents)
	if problem != nil {
		return err
	}
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	return misspelled(err, name, names)
}
