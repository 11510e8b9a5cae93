package activities

import (
	"cmp"
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
var numbers = regexp.MustCompile(`[0-9]{3,}`)

// Bounds of what is taken for numbers of tokens, since errors also have dates, ids and names of models.
const (
	// mostBytesPerToken is how many bytes of a request a token has at most, on average.
	mostBytesPerToken = 8

	// leastShare is the least share of a request that is taken for a limit.
	leastShare = 0.01
)

// fits returns which share of a request of so many bytes fits, by the numbers of tokens in the error that refuses it: what was asked for, and
// the limit. Without them, it is a half.
func fits(message string, bytes int) float64 {
	var all []float64
	for _, digits := range numbers.FindAllString(message, -1) {
		if n, err := strconv.ParseFloat(digits, 64); err == nil {
			all = append(all, n)
		}
	}
	share := 0.0
	for _, asked := range all {
		if asked < float64(bytes)/mostBytesPerToken || asked > float64(bytes) {
			continue
		}
		for _, limit := range all {
			if limit < asked && limit >= leastShare*asked {
				share = max(share, limit/asked)
			}
		}
	}
	return cmp.Or(share, 0.5)
}

// window is what has a size of conversation that fits: the instructions and tools of an agent take some of its model's context.
type window struct{ namespace, agent, model string }

func (c *modelCall) window() window {
	return window{c.in.Thread.Namespace, c.agent.Name, c.agent.Model}
}

// windowBytes bounds the conversation of the call: by what is known to fit.
func (c *modelCall) windowBytes() int {
	if c.shortened > 0 {
		return c.shortened
	}
	if known, ok := c.a.windows.Get(c.window()); ok {
		return known
	}
	return contextBytes
}

// resultShare is the share of the conversation that a result may have: a quarter.
const resultShare = 4

// resultBytes bounds a result in the conversation of the call.
func (c *modelCall) resultBytes() int {
	return min(c.agent.Limits.MaxResult, c.windowBytes()/resultShare)
}

// shorten reports whether a request that did not fit is sent again with a shorter conversation. Older messages are left out, and long ones
// cut, so that a thread stays usable after a result that is larger than its model's context.
func (c *modelCall) shorten(req llm.Request, err error) bool {
	e := asError(err)
	if e == nil || !e.ContextOverflow || c.choices.next() != "" && c.choices.triggers(e, 0) {
		return false
	}
	had := min(c.windowBytes(), bytesOf(llm.Request{Messages: req.Messages}))
	next := int(float64(had) * fits(e.Message, bytesOf(req)) * spare)
	if next < leastContext {
		return false
	}
	c.a.log.Warn("a request did not fit into the context of its model; the conversation is shortened", "thread", c.in.Thread.ThreadID,
		"agent", c.agent.Name, "model", c.agent.Model, "bytes", had, "next", next, "error", e.Message)
	c.shortened = next
	c.share.free()
	return true
}

// fitted notes that the call was answered: further calls of the agent begin with what has fit.
func (c *modelCall) fitted() {
	if c.shortened > 0 {
		c.a.windows.Add(c.window(), c.shortened)
	}
}
