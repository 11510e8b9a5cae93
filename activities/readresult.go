package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/names/builtin"
	"github.com/threadmill/threadmill/internal/recordid"
	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/internal/transcript"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// Limits of one call of read_result.
const (
	// maxFind is the maximum length of a text to find, in characters.
	maxFind = 100

	// maxPlaces is the maximum number of places where it was found, and aroundPlace is what is shown before and after each, in bytes.
	maxPlaces   = 20
	aroundPlace = 60

	// shownCalls is the number of the newest model calls in the thread among which the agent's is looked for.
	shownCalls = 20

	// pieceHead is the room for the line before a piece, in bytes.
	pieceHead = 128
)

// resultPiece are the arguments of read_result.
type resultPiece struct {
	Call   string `json:"call"`
	Offset int    `json:"offset,omitempty"`
	Find   string `json:"find,omitempty"`
}

// readResult returns the tool for a store.
func readResult(s transcript.Reader) tool.Tool {
	parameters := fmt.Sprintf(`{"type":"object","properties":{`+
		`"call":{"type":"string","description":"The id of the call, as the note in its result tells it"},`+
		`"offset":{"type":"integer","minimum":0,"description":"The byte to begin at. Default: 0"},`+
		`"find":{"type":"string","minLength":1,"maxLength":%d,"description":"Instead of reading: the text whose places to list from the offset on. Case does not matter"}},`+
		`"required":["call"],"additionalProperties":false}`, maxFind)
	return tool.MustFunc(builtin.ReadResult, "Reads a piece of a result of one of your calls in this conversation, of which you were shown a part only, or finds a text in it.",
		func(ctx context.Context, call tool.Call, in resultPiece) (string, error) {
			key := store.Key{Namespace: call.Namespace, ThreadID: call.ThreadID}
			text, err := resultText(ctx, s, key, call.Agent, in.Call)
			if err != nil {
				return "", err
			}
			if in.Offset > 0 && in.Offset >= len(text) {
				return "", fmt.Errorf("offset is %d, but the result has %d bytes: the last is at %d", in.Offset, len(text), len(text)-1)
			}
			limit, err := shownResult(ctx, s, key, call.Agent)
			if err != nil {
				return "", err
			}
			if in.Find != "" {
				return in.places(text, limit), nil
			}
			return in.piece(text, limit), nil
		}, tool.Parameters(json.RawMessage(parameters)), tool.Quick())
}

// resultText returns what models may see of the result of an agent's call.
func resultText(ctx context.Context, s transcript.Reader, key store.Key, agentName, call string) (string, error) {
	unknown := fmt.Errorf("you have no call %q with a result in this conversation: pass the id that the note in the result tells", excerpt.Start(call, maxFind))
	if signals.ValidateEventID("call", strings.TrimPrefix(call, recordid.InfoCall(""))) != nil { // stores may reject other ids
		return "", unknown
	}
	m, err := transcript.MessageByID(ctx, s, key, recordid.Result(call))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", unknown
	case err != nil:
		return "", tool.Retryable(fmt.Errorf("the result could not be read: %w", err))
	}
	shown, ok := m.ForModels()
	switch {
	case !strings.EqualFold(m.AgentID, agentName) || m.ToolCallID != call:
		return "", unknown
	case !ok:
		return "", fmt.Errorf("the result of the call %q is no longer available", call)
	}
	return shown.Content, nil
}

// shownResult returns the size of a result that the agent's model was shown whole in its newest call, so that a piece is not cut itself.
func shownResult(ctx context.Context, s transcript.Reader, key store.Key, agentName string) (int, error) {
	q := store.Query{Types: []string{event.TypeLLMCall}, Newest: true, Limit: shownCalls, MaxBytes: pageBytes}
	records, err := s.Records(ctx, key, q)
	if err != nil {
		return 0, tool.Retryable(fmt.Errorf("the result could not be read: %w", err))
	}
	for _, r := range records {
		var call event.LLMCall
		if json.Unmarshal(r.Payload, &call) == nil && strings.EqualFold(call.Agent, agentName) && call.Context != nil && call.Context.Result > 0 {
			return call.Context.Result, nil
		}
	}
	return agent.DefaultMaxResult, nil
}

// piece returns the text from the offset on, as far as there is room.
func (in resultPiece) piece(text string, limit int) string {
	begin := wholeAt(text, in.Offset)
	piece := excerpt.Start(text[begin:], limit-pieceHead)
	end := begin + len(piece)
	next := "it ends here"
	if end < len(text) {
		next = fmt.Sprintf("the next offset is %d", end)
	}
	return fmt.Sprintf("[bytes %d to %d of %d; %s]\n%s", begin, end, len(text), next, piece)
}

// places returns where the text to find begins, from the offset on, as far as there is room.
func (in resultPiece) places(text string, limit int) string {
	from := wholeAt(text, in.Offset)
	found := regexp.MustCompile("(?i)"+regexp.QuoteMeta(in.Find)).FindAllStringIndex(text[from:], maxPlaces+1)
	var b strings.Builder
	for i, at := range found {
		begin, end := from+at[0], from+at[1]
		around := text[wholeAt(text, max(begin-aroundPlace, 0)):begin] + excerpt.Start(text[begin:], end-begin+aroundPlace)
		line := fmt.Sprintf("offset %d: … %s …\n", begin, strings.Join(strings.Fields(around), " "))
		if i == maxPlaces || i > 0 && b.Len()+len(line) > limit-pieceHead {
			fmt.Fprintf(&b, "[there are more, the next at offset %d]\n", begin)
			break
		}
		b.WriteString(line)
	}
	if len(found) == 0 {
		return fmt.Sprintf("[not found in bytes %d to %d of %d]", from, len(text), len(text))
	}
	return b.String()
}

// wholeAt returns the offset at which the character at an offset begins.
func wholeAt(text string, offset int) int {
	for offset > 0 && offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset--
	}
	return offset
}
