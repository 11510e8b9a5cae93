package activities

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/threadmill/threadmill/llm"
)

const (
	// leastContext is the least conversation to which a call is shortened.
	leastContext = 4 << 10

	// spare is the share of what would fit that is used: tokens are not all of the same length.
	spare = 0.9
)

// errTooLong means that a request did not fit into the context of its model, and that a shorter one may.
var errTooLong = errors.New("the request does not fit into the context of the model")

// numbers matches what may be a number of tokens.
var numbers = regexp.MustCompile(`[0-9]{4,}`)

// fits returns which share of a request fits, by the numbers of tokens in the error that refuses it, or a half.
func fits(message string) float64 {
	least, most := 0.0, 0.0
	for _, digits := range numbers.FindAllString(message, -1) {
		n, err := strconv.ParseFloat(digits, 64)
		if err != nil || n == 0 {
			continue
		}
		if least == 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	if least == most {
		return 0.5
	}
	return max(least/most, 0.01)
}

// windowBytes bounds the conversation for a model: what is known to fit.
func (a *Activities) windowBytes(model string) int {
	if known, ok := a.windows.Load(model); ok {
		return known.(int)
	}
	return contextBytes
}

// shorten reports whether a request that did not fit is sent again with a shorter conversation, which further calls of the model begin with.
// Older messages are left out, and long ones cut, so that a thread stays usable after a result that is larger than its model's context.
func (c *modelCall) shorten(req llm.Request, err error) bool {
	e := asError(err)
	if e == nil || !e.ContextOverflow || c.choices.next() != "" && c.choices.triggers(e, 0) {
		return false
	}
	had := min(c.a.windowBytes(c.agent.Model), bytesOf(llm.Request{Messages: req.Messages}))
	next := int(float64(had) * fits(e.Message) * spare)
	if next < leastContext {
		return false
	}
	c.a.log.Warn("a request did not fit into the context of its model; the conversation is shortened", "thread", c.in.Thread.ThreadID,
		"agent", c.agent.Name, "model", c.agent.Model, "bytes", had, "next", next, "error", e.Message)
	c.a.windows.Store(c.agent.Model, next)
	c.share.free()
	return true
}
