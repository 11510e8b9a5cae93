package redaction

import (
	"errors"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/redact"
	"github.com/threadmill/threadmill/tool"
)

// Result redacts what a tool returns: its result, its error, and its questions, except for their addresses.
func Result(r *redact.Redactor, res tool.Result, err error) (tool.Result, error) {
	if r == nil {
		return res, err
	}
	res.Output, res.Details = r.Text(res.Output), r.Map(res.Details)
	need, asks := errors.AsType[*tool.InputRequired](err)
	if !asks {
		return res, Text(r, err)
	}
	clean := &tool.InputRequired{State: r.Text(need.State), Questions: make([]event.InputQuestion, len(need.Questions))}
	for i, q := range need.Questions {
		q.Message, q.Schema = r.Text(q.Message), r.JSON(q.Schema)
		clean.Questions[i] = q
	}
	return res, clean
}
