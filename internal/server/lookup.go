package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store"
)

// lookup finds the threads and agents that requests name.
type lookup struct {
	*core
	store store.Store
	state interface {
		State(ctx context.Context, threadID string) (signals.State, error)
	}

	// registry is nil if every agent name is valid.
	registry agent.Source
}

// checkAgents validates a list of agents.
func (l *lookup) checkAgents(ctx context.Context, location string, names []string) error {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", location, i)
		if err := checkID(at, name, signals.ValidateID); err != nil {
			return err
		}
		if err := l.checkAgent(ctx, at, name); err != nil {
			return err
		}
	}
	return nil
}

func (l *lookup) checkAgent(ctx context.Context, location, name string) error {
	if l.registry == nil {
		return nil
	}
	_, err := l.registry.Agent(ctx, l.namespace, name)
	switch {
	case errors.Is(err, agent.ErrUnknown):
		return refuse(http.StatusUnprocessableEntity, location, err.Error())
	case err != nil:
		return l.problem(ctx, "", err)
	}
	return nil
}

// checkID validates an id that the client chose.
func checkID(location, id string, check func(field, id string) error) error {
	return refuseField(location, check("id", id))
}

// thread returns a thread from the store or, if it has stored nothing yet, from the thread itself.
func (l *lookup) thread(ctx context.Context, id string) (api.Thread, error) {
	if signals.ValidateID("threadId", id) != nil {
		return api.Thread{}, notFound(id)
	}
	t, err := l.store.Thread(ctx, l.key(id))
	if err == nil {
		return threadView(t), nil
	}
	if !errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrErased) {
		return api.Thread{}, l.problem(ctx, id, err)
	}
	state, err := query(ctx, l.core, id, l.state.State)
	if err != nil {
		return api.Thread{}, err
	}
	return stateView(state.Body), nil
}

// prepare adds the options to a post and validates it. The error is a problem document that names
// the field of the body.
func (l *lookup) prepare(ctx context.Context, threadID string, post *signals.Post, o PostOptions) error {
	post.OnBusy, post.Priority, post.TTL = event.OnBusy(o.OnBusy), o.Priority, o.TTL
	post.OnWaiting, post.Agents, post.Tools = event.OnWaiting(o.OnWaiting), o.Agents, o.Tools
	err := threadclient.Prepare(threadID, post)
	if len(post.Payload) > signals.MaxPayload {
		return tooLarge("body.payload", len(post.Payload))
	}
	if err != nil {
		return l.problem(ctx, threadID, err)
	}
	return l.checkAgents(ctx, "body.agents", post.Agents)
}
