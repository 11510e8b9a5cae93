package render

import (
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/text/term"
)

// EnvEvent returns the line of an environment event: its time, type and further fields, as far as
// they fit.
func (r *Renderer) EnvEvent(e event.EnvEvent) term.Text {
	r.write(dim, e.Time().In(r.opts.Location).Format(time.TimeOnly))
	r.write(styleOf(e.Type), "  "+visible(e.Type))
	if payload := visible(string(e.Payload)); payload != "" && payload != "null" {
		r.write(plain, "  "+shorten(payload, r.opts.Width))
	}
	r.endLine()
	return r.take()
}

func styleOf(typ string) style {
	switch typ {
	case event.TypeToolError, event.TypeStreamError, event.TypeBackgroundTaskFailed:
		return red
	}
	return bold
}
