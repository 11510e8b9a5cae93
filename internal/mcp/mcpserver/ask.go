package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/internal/api"
)

type askArgs struct {
	Message   string `json:"message" jsonschema:"What to ask or tell the agent"`
	Agent     string `json:"agent,omitempty" jsonschema:"The agent that answers; list_agents lists them. Default: the default agent, or those of the thread" maxLength:"128"`
	Thread    string `json:"thread,omitempty" jsonschema:"Continue this thread. Default: a new thread" maxLength:"128"`
	RequestID string `json:"requestId,omitempty" jsonschema:"Makes the request idempotent: repeating it with the same id posts nothing again, and returns the result of the first one. Use a new UUID for each new request" minLength:"8" maxLength:"128"`
	Wait      int    `json:"waitSeconds,omitempty" jsonschema:"How long to wait for the end of the turn, in seconds, at most the server's limit. Default: 50" minimum:"1" maximum:"3600"`
}

// askRoles are those of several requests: without the second, a message would be posted whose answer
// cannot be read.
var askRoles = []auth.Role{auth.RolePost, auth.RoleRead}

func (s *server) askTool() tool {
	return define("ask_agent", "Ask an agent",
		"Sends a message to an agent and waits for the end of its turn. The result has the agent's answer, and the thread in which the conversation can continue. "+
			"An agent may work for minutes or wait for a person. Then the status is running, waiting_for_approval or waiting_for_input, and wait_for_turn continues with the thread and event of the result. "+
			"Cancelling the call or losing the connection ends the wait, never the turn. Progress is reported line by line.",
		adds, false, askRoles,
		func(ctx context.Context, c *call, in askArgs) (turnResult, error) {
			if roles := s.roles(ctx); roles != nil {
				if role := lacks(roles, askRoles); role != "" {
					return turnResult{}, fmt.Errorf("not permitted: this needs the role %s", role)
				}
			}
			thread, eventID, err := s.say(ctx, in)
			if err != nil {
				return turnResult{}, err
			}
			in.Message = ""
			out, err := s.wait(ctx, c, turnOf{thread: thread, event: eventID, posted: true}, s.limit(in.Wait))
			if err != nil {
				err = fmt.Errorf("the message is posted, but %w. Call wait_for_turn with thread %q and event %q for the answer", err, thread, eventID)
			}
			return out, err
		})
}

// say posts the message to the thread, or to a new one.
func (s *server) say(ctx context.Context, in askArgs) (thread, eventID string, err error) {
	if in.Thread != "" {
		eventID, err = s.post(ctx, in.Thread, in)
		return in.Thread, eventID, err
	}
	t := api.NewThread{ID: threadOf(in.RequestID, in.Agent), Agent: in.Agent, Message: &api.NewMessage{Content: in.Message, ID: in.RequestID}}
	opened, err := s.api.Open(ctx, t)
	if err == nil {
		return opened.ID, opened.EventID, nil
	}
	if status, ok := errors.AsType[*api.StatusError](err); ok && status.Code == http.StatusConflict && t.ID != "" {
		eventID, err = s.post(ctx, t.ID, in) // the request is repeated
		return t.ID, eventID, err
	}
	return "", "", problem(err, "thread")
}

func (s *server) post(ctx context.Context, thread string, in askArgs) (eventID string, err error) {
	p := api.Post{NewMessage: api.NewMessage{Content: in.Message, ID: in.RequestID}}
	if in.Agent != "" {
		p.Agents = []string{in.Agent}
	}
	eventID, err = s.api.Post(ctx, thread, p)
	return eventID, problem(err, "requestId")
}

// threadOf returns the thread that an idempotent request opens, or "" for any.
func threadOf(requestID, agent string) string {
	if requestID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(requestID + "\x00" + agent))
	return "mcp-" + hex.EncodeToString(sum[:16])
}
