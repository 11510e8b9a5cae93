package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/webhook"
)

type webhookInput struct {
	Source  string `path:"source" doc:"The name of the webhook"`
	RawBody []byte `contentType:"*/*"`

	header http.Header
}

// Resolve implements [huma.Resolver]. It keeps all headers: the endpoint selects them.
func (in *webhookInput) Resolve(ctx huma.Context) []error {
	in.header = http.Header{}
	ctx.EachHeader(in.header.Add)
	return nil
}

type webhookOutput struct {
	Status int
	Body   webhookAnswer
}

// webhookAnswer is the response to a request that has become an event, or to a challenge.
type webhookAnswer struct {
	EventID  string `json:"eventId,omitempty" doc:"The event that the thread received"`
	ThreadID string `json:"threadId,omitempty" doc:"The thread that received it"`
	Status   string `json:"status,omitempty" doc:"queued, or duplicate if the thread already has the event; ignored has a warning"`
	Warning  string `json:"warning,omitempty" doc:"Why the event is ignored"`

	Challenge string `json:"challenge,omitempty" doc:"The challenge that Slack sends before events; there is no event then"`
}

// webhookHandlers serve webhook requests.
type webhookHandlers struct {
	*core
	threads  Publisher
	webhooks func() []webhook.Endpoint
}

func (h *webhookHandlers) registerWebhooks() {
	register(h.core, public, huma.Operation{
		OperationID: "receiveWebhook", Method: http.MethodPost, Path: "/v1/webhooks/{source}", Tags: []string{"webhooks"},
		Summary: "Receive a request from another system as an environment event", DefaultStatus: http.StatusAccepted,
		Description: "The webhook's configuration says how requests are signed, and which event they become for which thread. " +
			"200 answers the challenge of Slack. The signature takes the place of an API key; a webhook that is unsigned needs one with the role post, " +
			"where the server wants API keys.",
		Errors: []int{400, 401, 403, 404, 409, 413, 429, 503},
	}, h.receiveWebhook)
	register(h.core, auth.RoleRead, huma.Operation{
		OperationID: "listWebhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tags: []string{"webhooks"},
		Summary: "List the webhooks", Description: "Those of the server that answers. Secrets are not told.",
	}, h.listWebhooks)
}

// Webhook is a webhook as clients see it, without its secrets.
type Webhook struct {
	Name      string   `json:"name" doc:"Unique among the webhooks"`
	Path      string   `json:"path" doc:"Where the other system sends its requests"`
	Signature string   `json:"signature" enum:"github,stripe,slack,hmac,unsigned" doc:"How its requests are signed. unsigned ones need an API key"`
	Secrets   int      `json:"secrets" doc:"How many secrets are valid"`
	Type      string   `json:"type" doc:"Template of the event's type"`
	Thread    string   `json:"thread" doc:"Template of the thread's id"`
	EventID   string   `json:"eventId,omitempty" doc:"Template of the event's id. Default: the sender's id, or one that is derived from the body"`
	Open      bool     `json:"open,omitempty" doc:"Whether an event opens a thread that does not exist"`
	Agents    []string `json:"agents,omitempty" doc:"The agents of a thread that it opens"`
	Title     string   `json:"title,omitempty" doc:"Template of the title of a thread that it opens. The title is one line, cut off after 400 bytes; without a field that the template names, the thread is opened without it"`
}

type webhooksOutput struct {
	Body struct {
		Webhooks []Webhook `json:"webhooks" nullable:"false" doc:"By name"`
	}
}

func (h *webhookHandlers) listWebhooks(context.Context, *struct{}) (*webhooksOutput, error) {
	out := &webhooksOutput{}
	out.Body.Webhooks = []Webhook{}
	for _, e := range h.webhooks() {
		w := Webhook{
			Name: e.Name, Path: "/v1/webhooks/" + e.Name, Signature: string(e.Signature.Scheme), Secrets: len(e.Secrets),
			Type: e.Event.Type, Thread: e.Event.Thread, EventID: e.Event.ID, Open: e.Event.Open, Agents: e.Event.Agents, Title: e.Event.Title,
		}
		if e.Unsigned {
			w.Signature = "unsigned"
		}
		out.Body.Webhooks = append(out.Body.Webhooks, w)
	}
	slices.SortFunc(out.Body.Webhooks, func(a, b Webhook) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (h *webhookHandlers) receiveWebhook(ctx context.Context, in *webhookInput) (*webhookOutput, error) {
	source, err := h.webhook(in.Source)
	if err != nil {
		return nil, err
	}
	if err := source.Verify(in.header, in.RawBody, time.Now()); err != nil {
		return nil, h.refuseWebhook(ctx, source, http.StatusUnauthorized, err)
	}
	if source.Unsigned {
		p, err := h.access.principal(ctx, auth.RolePost)
		if err != nil {
			return nil, err
		}
		ctx = auth.NewContext(ctx, p)
	}
	if challenge, ok := source.Challenge(in.header, in.RawBody); ok {
		return &webhookOutput{Status: http.StatusOK, Body: webhookAnswer{Challenge: challenge}}, nil
	}
	e, threadID, err := source.Map(in.header, in.RawBody)
	if err != nil {
		return nil, h.refuseWebhook(ctx, source, http.StatusUnprocessableEntity, err)
	}
	if e, err = attributed(ctx, "event.", e); err != nil {
		return nil, err
	}
	if len(e.Payload) > signals.MaxPayload {
		return nil, tooLarge("event.payload", len(e.Payload))
	}
	within, cancel := h.answer(ctx)
	defer cancel()
	out, err := h.threads.Publish(within, threadID, e, threadclient.PublishOptions{
		Open: source.Event.Open, Start: source.Start(in.header, in.RawBody),
	})
	if errors.Is(err, signals.ErrThreadErased) {
		// Another answer would make the sender repeat the request.
		out.Status, out.Warning, err = threadclient.PublishIgnored, fmt.Sprintf("Thread %q was erased", threadID), nil
		h.logger.Warn("a webhook is ignored", "webhook", source.Name, "reason", out.Warning, "thread", threadID, "event", out.EventID)
	}
	if errors.Is(err, signals.ErrConflict) && source.Event.ID != "" {
		// The configuration says which deliveries are equal, whatever else they have.
		out.EventID, out.Status, err = e.ID, signals.PostDuplicate, nil
	}
	return &webhookOutput{Status: http.StatusAccepted, Body: webhookAnswer{
		EventID: out.EventID, ThreadID: threadID, Status: out.Status, Warning: out.Warning,
	}}, h.problem(ctx, threadID, err)
}

func (h *webhookHandlers) webhook(name string) (webhook.Endpoint, error) {
	all := h.webhooks()
	if i := slices.IndexFunc(all, func(w webhook.Endpoint) bool { return w.Name == name }); i >= 0 {
		return all[i], nil
	}
	return webhook.Endpoint{}, huma.Error404NotFound(fmt.Sprintf("there is no webhook %.64q", name))
}

// refuseWebhook also logs the error, since the owner of the webhook does not see the response.
func (h *webhookHandlers) refuseWebhook(ctx context.Context, source webhook.Endpoint, status int, err error) error {
	h.logger.Warn("a webhook was refused", "webhook", source.Name, "request", requestID(ctx), "error", err)
	if field, ok := errors.AsType[*event.FieldError](err); ok {
		return refuse(status, cmp.Or(field.Field, "body"), field.Problem)
	}
	return huma.NewError(status, err.Error())
}
