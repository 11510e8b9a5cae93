package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/threadmill/threadmill/auth"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/registry"
	"github.com/threadmill/threadmill/signals"
)

// actor returns the name of the person or client that acts. It is the principal's name; a request
// that states another name is rejected. Without a principal, it is the stated name or, by default,
// byDefault.
func actor(ctx context.Context, location, given, byDefault string) (string, error) {
	name := auth.FromContext(ctx).Name
	switch {
	case name == "" && given == "":
		return byDefault, nil
	case name == "":
		return given, refuseField(location, event.ValidateName("", given))
	case given != "" && given != name:
		return "", refuse(http.StatusForbidden, location, fmt.Sprintf("must be %q, the authenticated principal; omit it", name))
	}
	return name, nil
}

// person returns the name of the person who decides: the principal's, or the stated one. It has no
// default, since a decision without a name is nobody's.
func person(ctx context.Context, location, given string) (string, error) {
	name, err := actor(ctx, location, given, "")
	switch {
	case err != nil:
		return "", err
	case name == "":
		return "", refuse(http.StatusUnprocessableEntity, location, "is required: the name of the person who decides, since no API key states it")
	case event.Anonymous(name):
		return "", refuse(http.StatusUnprocessableEntity, location, fmt.Sprintf("%q identifies nobody: state the name of the person who decides", name))
	}
	return name, nil
}

// identities keeps the names of principals and of agents apart: a principal with the name of an agent
// would speak as that agent.
type identities struct {
	namespace string
	agents    *registry.Registry
	keys      func(context.Context) ([]auth.APIKey, error)
}

// validateKey returns an error if an agent has the name of a new API key.
func (i identities) validateKey(ctx context.Context, name string) error {
	if i.agents.Has(ctx, i.namespace, name) {
		return event.FieldErrorf("name", "%q is the name of an agent: choose another one", name)
	}
	return nil
}

// validateAgent returns an error if a valid API key has the name of an agent.
func (i identities) validateAgent(ctx context.Context, name string) error {
	keys, err := i.keys(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(keys, func(k auth.APIKey) bool { return k.RevokedAt.IsZero() && strings.EqualFold(k.Name, name) }) {
		return event.FieldErrorf("name", "%q is the name of an API key: choose another one, or revoke the key", name)
	}
	return nil
}

// sendAs returns an error if the principal may not send messages of this type of sender.
func sendAs(ctx context.Context, location string, sender event.CreatedBy) error {
	if sender == "" || sender == event.CreatedByUser {
		return nil
	}
	return needs(ctx, auth.RoleSendAs, location)
}

// publishedBy is the metadata key of an environment event for the principal that published it.
const publishedBy = "published_by"

// attributed returns the environment event with its publisher in the metadata.
func attributed(ctx context.Context, at string, e event.EnvEvent) (event.EnvEvent, error) {
	name := auth.FromContext(ctx).Name
	if name == "" {
		return e, nil
	}
	given := ""
	if raw, ok := e.Metadata.Extra[publishedBy]; ok && json.Unmarshal(raw, &given) != nil {
		return e, refuse(http.StatusUnprocessableEntity, at+"metadata."+publishedBy, "must be text")
	}
	if _, err := actor(ctx, at+"metadata."+publishedBy, given, ""); err != nil {
		return e, err
	}
	raw, err := json.Marshal(name)
	if err != nil {
		return e, err
	}
	e.Metadata.Extra = maps.Clone(e.Metadata.Extra)
	if e.Metadata.Extra == nil {
		e.Metadata.Extra = map[string]json.RawMessage{}
	}
	e.Metadata.Extra[publishedBy] = raw
	if e.Type == event.TypeUserQuery {
		e.Payload, err = actorIn(ctx, at+"payload", "userId", e.Payload)
	}
	return e, err
}

// attributeSchedule makes the principal the sender of a schedule's posts.
func attributeSchedule(ctx context.Context, s *signals.Schedule) (err error) {
	if s.Message != nil {
		if err := sendAs(ctx, "body.message.senderType", s.Message.SenderType); err != nil {
			return err
		}
		if s.Message.SenderID, err = actor(ctx, "body.message.sender", s.Message.SenderID, ""); err != nil {
			return err
		}
	}
	if s.Event != nil {
		*s.Event, err = attributed(ctx, "body.event.", *s.Event)
	}
	return err
}

// needs returns an error unless the principal has a role that only a part of the route requires.
func needs(ctx context.Context, role auth.Role, location string) error {
	if p := auth.FromContext(ctx); p.Kind != "" && !p.Roles.Has(role) {
		return refuse(http.StatusForbidden, location, fmt.Sprintf("needs the role %s; %s has %s", role, who(p), strings.Join(p.Roles.Strings(), ", ")))
	}
	return nil
}

// actorIn sets the actor in a field of a JSON object. It does not change other JSON values.
func actorIn(ctx context.Context, location, field string, object json.RawMessage) (json.RawMessage, error) {
	if auth.FromContext(ctx).Name == "" {
		return object, nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil || fields == nil {
		return object, nil
	}
	given := ""
	for key, raw := range fields {
		switch {
		case key == field && string(raw) != "null" && json.Unmarshal(raw, &given) != nil:
			return nil, refuse(http.StatusUnprocessableEntity, location+"."+field, "must be text")
		case key != field && strings.EqualFold(key, field):
			return nil, refuse(http.StatusUnprocessableEntity, location, fmt.Sprintf("unknown field %.64q: it is written %s", key, field))
		}
	}
	name, err := actor(ctx, location+"."+field, given, "")
	if err != nil {
		return nil, err
	}
	if fields[field], err = json.Marshal(name); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
