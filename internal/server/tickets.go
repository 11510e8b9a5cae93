package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
)

// ticketLife is the time in which a stream has to begin with its ticket.
const ticketLife = time.Minute

// ticketer is an authenticator that makes tickets: see [auth.Keys].
type ticketer interface {
	Ticket(authorization, purpose string, until time.Time) (string, error)
	Redeem(ctx context.Context, ticket, purpose string, begin bool) (auth.Principal, error)
}

// noTicket is the ticket for a stream that needs none. It opens nothing.
const noTicket = "none"

// Ticketed is the parameter of a stream that takes tickets.
type Ticketed struct {
	Ticket string `query:"ticket" doc:"A ticket from POST /v1/stream-tickets, for clients that cannot set headers. It opens streams only"`
}

type ticketInput struct {
	Authorization string `header:"Authorization" hidden:"true"`
	Body          struct {
		Threads []string `json:"threads" maxItems:"50" doc:"The threads that the stream will follow: one for GET /v1/threads/{id}/events, all of them for GET /v1/events"`
	}
}

type ticketOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Ticket    string    `json:"ticket" doc:"The value of the stream's parameter ticket"`
		ExpiresAt time.Time `json:"expiresAt" doc:"When no stream can begin with it any more. Streams that have begun go on"`
	}
}

func (h *eventHandlers) registerTickets() {
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "createStreamTicket", Method: http.MethodPost, Path: "/v1/stream-tickets", Tags: []string{"events"},
		Summary: "Get a ticket for a stream",
		Description: "For EventSource, which cannot send an API key: the stream of these threads begins with ?ticket=… within a minute, and goes on as long as the key of this request " +
			"is valid. The ticket opens nothing else.",
		Errors: []int{409, 503},
	}, h.createTicket)
}

func (h *eventHandlers) createTicket(_ context.Context, in *ticketInput) (*ticketOutput, error) {
	if len(in.Body.Threads) == 0 {
		return nil, refuse(http.StatusUnprocessableEntity, "body.threads", "is empty: name the threads of the stream")
	}
	out := &ticketOutput{CacheControl: "no-store"}
	out.Body.Ticket, out.Body.ExpiresAt = noTicket, time.Now().Add(ticketLife).Truncate(time.Second).UTC()
	if keys, ok := h.access.authenticator.(ticketer); ok {
		ticket, err := keys.Ticket(in.Authorization, ticketPurpose(h.namespace, in.Body.Threads), out.Body.ExpiresAt)
		if err != nil {
			return nil, huma.Error409Conflict(err.Error())
		}
		out.Body.Ticket = cmp.Or(ticket, noTicket)
	}
	return out, nil
}

// ticketPurpose names the stream of some threads.
func ticketPurpose(namespace string, threads []string) string {
	purpose, _ := json.Marshal(append([]string{"stream", namespace}, slices.Sorted(slices.Values(threads))...)) // strings can always be encoded
	return string(purpose)
}

// ticketOf returns the ticket of a request for a stream, and its purpose. Other requests have none.
func (a *access) ticketOf(r *http.Request) (ticket, purpose string) {
	ticket = r.URL.Query().Get("ticket")
	if ticket == "" || ticket == noTicket || r.Method != http.MethodGet || !wantsStream(r.Header.Get("Accept")) {
		return "", ""
	}
	if r.URL.Path == "/v1/events" {
		return ticket, ticketPurpose(a.namespace, r.URL.Query()["thread"])
	}
	id, isThread := strings.CutPrefix(r.URL.Path, "/v1/threads/")
	id, isEvents := strings.CutSuffix(id, "/events")
	if !isThread || !isEvents || strings.Contains(id, "/") {
		return "", ""
	}
	return ticket, ticketPurpose(a.namespace, []string{id})
}
