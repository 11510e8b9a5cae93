package sqlstore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/store"
)

// validateKey returns a [store.ErrInvalid] error unless both parts of the key are set and [store.Storable].
func validateKey(k store.Key) error {
	if err := checkWord("namespace", k.Namespace); err != nil {
		return err
	}
	return checkWord("threadId", k.ThreadID)
}

// normalizeBatch returns the batch in the form that every driver stores, so that an append returns the
// same data as later queries, or a [store.ErrInvalid] error. It does not modify b.
//
// It rejects: records of type "token" (tokens go to the live stream); records without id or type;
// identifiers that are not [store.Storable]; payloads and metadata that are not JSON; two records with
// the same id and different types; an update of the thread with a negative number; a ToolStart and
// a ToolFinish of different calls; a ToolStart whose status is not "started", and a ToolFinish
// whose status is; texts to be queued that [normalizeExtraction] rejects.
//
// It changes: times, to UTC and whole microseconds; each run of bytes in JSON and titles that is
// not UTF-8, to U+FFFD, and NUL characters in titles likewise (in JSON they are written \u0000 and
// remain); an empty payload or tool input, to null; tool input and output that is not JSON, to a
// JSON string of the same text; a ToolFinish without FinishedAt, to now, and without StartedAt, to
// FinishedAt.
func normalizeBatch(key store.Key, b store.Batch) (store.Batch, error) {
	if err := validateKey(key); err != nil {
		return store.Batch{}, err
	}
	var err error
	if b.Records, err = checkRecords(b.Records); err != nil {
		return store.Batch{}, err
	}
	if b.Once != "" && !slices.ContainsFunc(b.Records, func(r event.Record) bool { return r.ID == b.Once }) {
		return store.Batch{}, invalid("once: %q is none of the records' ids", b.Once)
	}
	if b.Thread, err = checkUpdate(b.Thread); err != nil {
		return store.Batch{}, err
	}
	if b.Extract, err = checkExtract(key, b.Extract); err != nil {
		return store.Batch{}, err
	}
	if b.ToolStart, err = checkStart(b.ToolStart); err != nil {
		return store.Batch{}, err
	}
	if b.ToolFinish, err = checkFinish(b.ToolFinish); err != nil {
		return store.Batch{}, err
	}
	if b.ToolStart != nil && b.ToolFinish != nil && b.ToolStart.ToolCallID != b.ToolFinish.ToolCallID {
		return store.Batch{}, invalid("toolStart and toolFinish are of different calls, %q and %q", b.ToolStart.ToolCallID, b.ToolFinish.ToolCallID)
	}
	return b, nil
}

func checkRecords(given []event.Record) ([]event.Record, error) {
	records := slices.Clone(given)
	types := make(map[string]string, len(records))
	for i := range records {
		r := &records[i]
		if err := checkRecord(r); err != nil {
			return nil, fmt.Errorf("record %d (%q): %w", i, r.ID, err)
		}
		if typ, twice := types[r.ID]; twice && typ != r.Type {
			return nil, invalid("record %d (%q): its id is that of another record of the batch, of type %q", i, r.ID, typ)
		}
		types[r.ID] = r.Type
	}
	return records, nil
}

func checkRecord(r *event.Record) error {
	if r.Type == event.TypeToken {
		return invalid("type: %q is never stored: tokens go to the live stream", event.TypeToken)
	}
	if err := checkWord("id", r.ID); err != nil {
		return err
	}
	if err := checkWord("type", r.Type); err != nil {
		return err
	}
	if !store.Storable(r.TraceID) || !store.Storable(r.ParentEventID) || !store.Storable(r.EventID) {
		return invalid("traceId, parentEventId and eventId must be UTF-8 without NUL characters")
	}
	r.CreatedAt = stamp(r.CreatedAt)
	return checkPayload(r)
}

func checkPayload(r *event.Record) error {
	if len(r.Payload) == 0 {
		r.Payload = json.RawMessage("null")
	}
	if !json.Valid(r.Payload) {
		return invalid("payload: is not JSON")
	}
	r.Payload = validUTF8(r.Payload)
	return nil
}

// normalizeReplacedRecords returns records for [store.Erasures].ReplaceRecords with payloads in the form that every driver stores, or an
// [store.ErrInvalid] error.
func normalizeReplacedRecords(given []event.Record) ([]event.Record, error) {
	records := slices.Clone(given)
	for i := range records {
		if err := checkPayload(&records[i]); err != nil {
			return nil, fmt.Errorf("record %d (%q): %w", i, records[i].ID, err)
		}
	}
	return slices.DeleteFunc(records, func(r event.Record) bool { return !store.Storable(r.ID) }), nil
}

// normalizeReplacedToolLogs returns tool logs for [store.Erasures].ReplaceToolLogs with inputs and outputs in the form that every driver
// stores.
func normalizeReplacedToolLogs(given []store.ToolLog) []store.ToolLog {
	logs := slices.Clone(given)
	for i := range logs {
		logs[i].Input, logs[i].Output = asJSON(logs[i].Input), asJSON(logs[i].Output)
	}
	return slices.DeleteFunc(logs, func(l store.ToolLog) bool { return !store.Storable(l.ToolCallID) })
}

func checkUpdate(given *store.ThreadUpdate) (*store.ThreadUpdate, error) {
	if given == nil {
		return nil, nil
	}
	u := *given
	if u.Number < 0 {
		return nil, invalid("number of the thread's update: %d is negative; 0 is for an update without one", u.Number)
	}
	if u.Title != nil {
		title := strings.ReplaceAll(strings.ToValidUTF8(*u.Title, "\uFFFD"), "\x00", "\uFFFD")
		u.Title = &title
	}
	switch u.Status {
	case "", store.ThreadOpen, store.ThreadClosed:
	default:
		return nil, invalid("status of the thread: %q is neither %s nor %s", u.Status, store.ThreadOpen, store.ThreadClosed)
	}
	if !store.Storable(u.Parent) {
		return nil, invalid("parent of the thread: must be UTF-8 without NUL characters")
	}
	for _, agent := range u.Agents {
		if err := checkWord("agents of the thread", agent); err != nil {
			return nil, err
		}
	}
	if len(u.Metadata) > 0 {
		if !json.Valid(u.Metadata) {
			return nil, invalid("metadata of the thread: is not JSON")
		}
		u.Metadata = validUTF8(u.Metadata)
	}
	return &u, nil
}

func checkExtract(key store.Key, given []store.Extraction) ([]store.Extraction, error) {
	texts := slices.Clone(given)
	for i, x := range texts {
		x.ThreadID = cmp.Or(x.ThreadID, key.ThreadID)
		var err error
		if texts[i], err = normalizeExtraction(key.Namespace, x); err != nil {
			return nil, fmt.Errorf("extract %d (%q): %w", i, x.ID, err)
		}
	}
	return texts, nil
}

func checkStart(given *store.ToolLog) (*store.ToolLog, error) {
	if given == nil {
		return nil, nil
	}
	l, err := checkTool("toolStart", *given)
	if err != nil {
		return nil, err
	}
	if l.Status == "" {
		l.Status = store.ToolStarted
	}
	if l.Status != store.ToolStarted {
		return nil, invalid("toolStart %q: its status is %q, not %q", l.ToolCallID, l.Status, store.ToolStarted)
	}
	l.Output, l.FinishedAt = nil, nil
	return l, nil
}

func checkFinish(given *store.ToolLog) (*store.ToolLog, error) {
	if given == nil {
		return nil, nil
	}
	l, err := checkTool("toolFinish", *given)
	if err != nil {
		return nil, err
	}
	switch l.Status {
	case store.ToolSucceeded, store.ToolFailed, store.ToolDenied, store.ToolInterrupted, store.ToolUnknown, store.ToolPending, store.ToolWaiting:
	default:
		return nil, invalid("toolFinish %q: %q is no status of a finished call", l.ToolCallID, l.Status)
	}
	if l.FinishedAt == nil {
		now := stamp(time.Now())
		l.FinishedAt = &now
	}
	if l.StartedAt.IsZero() {
		l.StartedAt = *l.FinishedAt
	}
	return l, nil
}

func checkTool(field string, l store.ToolLog) (*store.ToolLog, error) {
	if err := checkWord(field+".toolCallId", l.ToolCallID); err != nil {
		return nil, err
	}
	if !store.Storable(l.ToolName) || !store.Storable(l.Agent) || !store.Storable(l.TraceID) {
		return nil, invalid("%s %q: toolName, agent and traceId must be UTF-8 without NUL characters", field, l.ToolCallID)
	}
	if l.Attempt < 0 || l.Attempt > math.MaxInt32 {
		return nil, invalid("%s %q: attempt %d is out of bounds", field, l.ToolCallID, l.Attempt)
	}
	l.Input = asJSON(l.Input)
	if l.Input == nil {
		l.Input = json.RawMessage("null")
	}
	l.Output = asJSON(l.Output)
	l.StartedAt = stamp(l.StartedAt)
	if l.FinishedAt != nil {
		at := stamp(*l.FinishedAt)
		l.FinishedAt = &at
	}
	return &l, nil
}

func checkWord(field, s string) error {
	if s == "" {
		return invalid("%s: is required", field)
	}
	if !store.Storable(s) {
		return invalid("%s: %q must be UTF-8 without NUL characters", field, s)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{store.ErrInvalid}, args...)...)
}

// asJSON keeps valid JSON and converts anything else to a JSON string: a model's arguments may be
// invalid JSON and must still be stored.
func asJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if json.Valid(raw) {
		return validUTF8(raw)
	}
	text, _ := json.Marshal(string(raw))
	return text
}

func validUTF8(raw json.RawMessage) json.RawMessage {
	if utf8.Valid(raw) {
		return raw
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
}

// stamp returns a time with the precision that all drivers have.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// threadPageDefaults returns the page with its default limit.
func threadPageDefaults(p store.ThreadPage) store.ThreadPage {
	switch {
	case p.Limit <= 0:
		p.Limit = store.DefaultThreads
	case p.Limit > store.MaxThreads:
		p.Limit = store.MaxThreads
	}
	p.CursorUpdatedAt = stamp(p.CursorUpdatedAt)
	return p
}
