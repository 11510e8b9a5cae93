package server

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/internal/mcp/toolserver"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/tool"
)

// ToolLogins are the logins to the MCP servers. The user is empty for the login of a namespace.
type ToolLogins interface {
	// Login returns what is known about a login. The error is [toolserver.ErrNoLogin] if the server has none.
	Login(ctx context.Context, namespace, server, user string) (tool.ServerLogin, error)

	// LoginLink returns a link by which a browser logs in for a person. by is who asks.
	LoginLink(ctx context.Context, namespace, server, user, by string) (link string, expires time.Time, err error)

	// Logout deletes a login, or returns [toolserver.ErrNotLoggedIn].
	Logout(ctx context.Context, namespace, server, user string) error

	// LoginPages serves what browsers visit, below /oauth/. done is called after each login.
	LoginPages(done func(context.Context, toolserver.LoggedIn)) http.Handler
}

// loginHandlers serve the logins to MCP servers.
type loginHandlers struct {
	*core
	logins    ToolLogins // nil = none
	servers   ToolServers
	waiting   waitingLists
	approvals Approvals
	closing   context.Context
}

type loginInput struct {
	MCPPath
	Body struct {
		User string `json:"user,omitempty" maxLength:"200" doc:"Who logs in. Default, and the only one permitted: the name of the API key. Required without API keys, if each person logs in"`
	}
}

type logoutInput struct {
	MCPPath
	User string `query:"user" maxLength:"200" doc:"Whose login is deleted. Default: that of the API key's name"`
}

func (h *loginHandlers) registerLogins(mux *http.ServeMux) {
	tags := []string{"mcp"}
	const path = "/v1/mcp/{name}/login"
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "loginMCPServer", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Get a link by which a person logs in to an MCP server",
		Description: "One's own login needs the role post too, one that belongs to the namespace operate. Calls that wait for the login go on when it has succeeded. " +
			"Give the link only to the person who logs in: the account that she chooses is the one that agents use.",
		Errors: []int{403, 404, 409, 422, 503},
	}, h.login)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "logoutMCPServer", Method: http.MethodDelete, Path: path, Tags: tags,
		Summary: "Delete the login to an MCP server, and revoke it if the authorization server can", DefaultStatus: http.StatusNoContent,
		Description: "One's own login needs the role post too, one that belongs to the namespace, or to somebody else, operate.",
		Errors:      []int{403, 404, 409, 422, 503},
	}, h.logout)
	if h.logins == nil {
		return
	}
	pages := h.logins.LoginPages(h.loggedIn)
	h.access.handle(mux, route{role: public}, "GET "+loginPages, pages.ServeHTTP)
}

// whose returns the user of a login to a server; it is empty for a login of the namespace.
func (h *loginHandlers) whose(ctx context.Context, location, server, stated string) (string, error) {
	if h.logins == nil {
		return "", noServer(server)
	}
	known, err := h.logins.Login(ctx, h.namespace, server, "")
	if err != nil {
		return "", h.loginProblem(ctx, server, err)
	}
	if known.Per != tool.LoginPerUser {
		return "", needs(ctx, auth.RoleOperate, "path.name")
	}
	self := auth.FromContext(ctx).Name
	switch {
	case stated == "" && self == "":
		return "", refuse(http.StatusUnprocessableEntity, location, "is required: the name of the person who logs in, since no API key states it")
	case stated == "" || stated == self:
		return self, needs(ctx, auth.RolePost, location)
	}
	if err := event.ValidateName("", stated); err != nil {
		return "", refuseField(location, err)
	}
	return stated, needs(ctx, auth.RoleOperate, location)
}

func (h *loginHandlers) login(ctx context.Context, in *loginInput) (*output[api.MCPLoginLink], error) {
	user, err := h.whose(ctx, "body.user", in.Name, in.Body.User)
	if err != nil {
		return nil, err
	}
	// Whoever follows the link chooses the account, which would then be used in another's name.
	by, err := actor(ctx, "body.user", in.Body.User, byAPI)
	if err != nil {
		return nil, err
	}
	link, expires, err := h.logins.LoginLink(ctx, h.namespace, in.Name, user, by)
	if err != nil {
		return nil, h.loginProblem(ctx, in.Name, err)
	}
	return &output[api.MCPLoginLink]{Body: api.MCPLoginLink{URL: link, ExpiresAt: expires}}, nil
}

func (h *loginHandlers) logout(ctx context.Context, in *logoutInput) (*struct{}, error) {
	user, err := h.whose(ctx, "query.user", in.Name, in.User)
	if err != nil {
		return nil, err
	}
	if err := h.logins.Logout(ctx, h.namespace, in.Name, user); err != nil {
		return nil, h.loginProblem(ctx, in.Name, err)
	}
	h.logger.Info("a login to an MCP server was deleted", "server", in.Name, "user", user, "by", auth.FromContext(ctx).Name)
	h.reconnect(ctx, in.Name)
	return nil, nil
}

func (h *loginHandlers) loginProblem(ctx context.Context, server string, err error) error {
	switch {
	case errors.Is(err, toolserver.ErrNoServer):
		return noServer(server)
	case errors.Is(err, toolserver.ErrNoLogin):
		return huma.Error409Conflict(err.Error())
	case errors.Is(err, toolserver.ErrNotLoggedIn):
		return huma.Error404NotFound(err.Error())
	}
	return h.problem(ctx, "", err)
}

// reconnect makes the workers use another login.
func (h *loginHandlers) reconnect(ctx context.Context, server string) {
	if err := h.servers.Restart(ctx, h.namespace, server); err != nil {
		h.logger.Warn("the workers could not be told of a login; they notice it within minutes", "server", server, "error", err)
	}
}

// Bounds of answering questions after a login. A list of waiting threads has at most
// [threadclient.MaxApprovalsLimit].
const (
	wakeRounds = 10
	wakeWithin = time.Minute
	wakeAtOnce = 16
)

// wakeAgain is when questions are looked for again after a login: a call that the former login has failed may ask a moment
// later, and the store has a question a moment after its thread.
var wakeAgain = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second}

// loggedIn answers the questions that waited for a login.
func (h *loginHandlers) loggedIn(ctx context.Context, l toolserver.LoggedIn) {
	if l.Namespace != h.namespace {
		return
	}
	h.reconnect(ctx, l.Server)
	h.answerLogins(ctx, l)
	go func() {
		for _, pause := range wakeAgain {
			select {
			case <-time.After(pause):
			case <-h.closing.Done():
				return
			}
			h.answerLogins(ctx, l)
		}
	}()
}

// answerLogins answers the questions that wait for the present login. Those that it has made itself, because it does not
// suffice, wait for another one.
func (h *loginHandlers) answerLogins(ctx context.Context, l toolserver.LoggedIn) {
	now, err := h.logins.Login(ctx, l.Namespace, l.Server, l.User)
	switch {
	case err != nil:
		h.logger.Warn("a login could not be read; people can answer the calls that waited for it", "server", l.Server, "error", err)
		return
	case !now.LoggedIn:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wakeWithin)
	defer cancel()
	for range wakeRounds {
		waiting, err := h.waiting.list(ctx, threadclient.ApprovalsQuery{Limit: threadclient.MaxApprovalsLimit})
		if err != nil {
			h.logger.Warn("the threads that wait for a login could not be listed; people can answer there that they have logged in", "server", l.Server, "error", err)
			return
		}
		if answered := h.answerLogin(ctx, l, now.ID, waiting); !waiting.More {
			return
		} else if answered == 0 {
			break
		}
	}
	h.logger.Warn("more threads wait for people than were looked through after a login; people can answer there that they have logged in", "server", l.Server)
}

// answerLogin answers the questions of a list that wait for a login, and returns how many.
func (h *loginHandlers) answerLogin(ctx context.Context, l toolserver.LoggedIn, id string, waiting threadclient.Waiting) int64 {
	var answered atomic.Int64
	var answers errgroup.Group
	answers.SetLimit(wakeAtOnce)
	for _, w := range waiting.Inputs {
		q := w.Request
		if len(q.Questions) != 1 {
			continue
		}
		if asked := q.Questions[0].Login; asked == nil || asked.Server != l.Server || asked.User != l.User || asked.Refused == id {
			continue
		}
		answers.Go(func() error {
			_, err := h.approvals.AnswerInput(ctx, w.ThreadID, signals.InputAnswers{
				ToolCallID: q.ToolCallID, Round: q.Round, By: l.By,
				Answers: map[string]event.InputAnswer{q.Questions[0].ID: {Action: event.InputAccept}},
			})
			if err != nil {
				h.logger.Warn("a question could not be answered after a login", "thread", w.ThreadID, "toolCall", q.ToolCallID, "error", err)
				return nil
			}
			answered.Add(1)
			return nil
		})
	}
	_ = answers.Wait() // no function fails
	return answered.Load()
}
