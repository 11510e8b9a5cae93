package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/store"
)

// ThreadFilter are the parameters that select threads. It is exported for huma, which reads embedded structs only then.
type ThreadFilter struct {
	Search        string `query:"q" maxLength:"200" doc:"Only threads whose id, title, agents or messages contain this text"`
	Agent         string `query:"agent" maxLength:"128" doc:"Only threads with this agent. Of the default agent, those without named agents too"`
	Tool          string `query:"tool" maxLength:"128" doc:"Only threads in which a call of this tool waits for a person"`
	OlderThan     string `query:"olderThan" maxLength:"64" doc:"Only threads whose updatedAt is before this time: RFC 3339, or a duration before now, such as 24h"`
	NewerThan     string `query:"newerThan" maxLength:"64" doc:"Only threads whose updatedAt is after this time, as with olderThan"`
	MinTokens     int64  `query:"minTokens" minimum:"0" doc:"Only threads whose model calls took at least so many tokens: see tokens of Thread"`
	ExpiresBefore string `query:"expiresBefore" maxLength:"64" doc:"Only threads in which a call waits for an approval that expires before this time: RFC 3339, or a duration from now, such as 1h. With tool: a call of that tool"`
}

// filter validates the parameters and converts them for the store.
func (l *lookup) filter(ctx context.Context, in ThreadFilter) (store.ThreadFilter, error) {
	out := store.ThreadFilter{Search: in.Search, Agent: in.Agent, Tool: in.Tool, MinTokens: in.MinTokens}
	now := time.Now()
	for _, bound := range []struct {
		name, text string
		sign       time.Duration
		out        *time.Time
	}{
		{"olderThan", in.OlderThan, -1, &out.UpdatedBefore}, {"newerThan", in.NewerThan, -1, &out.UpdatedAfter}, {"expiresBefore", in.ExpiresBefore, 1, &out.ExpiresBefore},
	} {
		var ok bool
		if *bound.out, ok = timeFrom(now, bound.text, bound.sign); !ok {
			return out, refuse(http.StatusUnprocessableEntity, "query."+bound.name, "must be a time of RFC 3339, such as 2027-01-31T12:00:00Z, or a positive duration, such as 24h")
		}
	}
	if in.Agent == "" || l.registry == nil {
		return out, nil
	}
	named, err := l.registry.Agent(ctx, l.namespace, in.Agent)
	if err == nil {
		var first agent.Agent
		first, err = l.registry.Agent(ctx, l.namespace, "")
		out.Agent, out.DefaultAgent = named.Name, err == nil && named.Name == first.Name
	}
	if err != nil && !errors.Is(err, agent.ErrUnknown) { // threads may have agents that were deleted
		return out, l.problem(ctx, "", err)
	}
	return out, nil
}

// timeFrom parses a time, or a duration from now in the direction of sign. Without a text the time is zero.
func timeFrom(now time.Time, text string, sign time.Duration) (at time.Time, ok bool) {
	if text == "" {
		return at, true
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(sign * d), d > 0
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && !at.IsZero()
}

func (h *threadHandlers) countThreads(ctx context.Context, in *struct{ ThreadFilter }) (*output[store.ThreadCounts], error) {
	filter, err := h.filter(ctx, in.ThreadFilter)
	if err != nil {
		return nil, err
	}
	counts, err := h.store.CountThreads(ctx, h.namespace, filter)
	if err != nil {
		return nil, h.problem(ctx, "", err)
	}
	return &output[store.ThreadCounts]{counts}, nil
}
