package redaction

import (
	"encoding/json"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/hook"
	"github.com/threadmill/threadmill/redact"
)

// Answer returns the function that redacts the answer and the error of a hook or processor; nil without a redactor.
func Answer(r *redact.Redactor) func(hook.Answer, error) (hook.Answer, error) {
	if r == nil {
		return nil
	}
	return func(a hook.Answer, err error) (hook.Answer, error) {
		if a.Event != nil {
			a.Event = Event(r, a.Event)
		}
		a.Responses, a.Produced = responses(r, a.Responses), derived(r, a.Produced)
		return a, Text(r, err)
	}
}

// verdict redacts the decision of a hook workflow.
func verdict(r *redact.Redactor, v hook.Verdict) hook.Verdict {
	v.Responses, v.Produced = responses(r, v.Responses), derived(r, v.Produced)
	e, err := event.Unmarshal(v.Event)
	if err != nil {
		return v // it is rejected
	}
	if v.Event, err = json.Marshal(Event(r, e)); err != nil {
		v.Event = nil // not kept rather than kept as it is
	}
	return v
}

func responses(r *redact.Redactor, in []hook.Response) []hook.Response {
	if in == nil {
		return nil
	}
	out := make([]hook.Response, len(in))
	for i, one := range in {
		one.Content, one.Metadata = r.Text(one.Content), r.Map(one.Metadata)
		out[i] = one
	}
	return out
}

func derived(r *redact.Redactor, in []hook.Produced) []hook.Produced {
	if in == nil {
		return nil
	}
	out := make([]hook.Produced, len(in))
	for i, one := range in {
		one.Payload = r.JSON(one.Payload, payloadIDs...)
		if one.Metadata != nil {
			metadata := envMetadata(r, *one.Metadata)
			one.Metadata = &metadata
		}
		out[i] = one
	}
	return out
}
