package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// QueueOptions configure the output of a queue's events.
type QueueOptions struct {
	// Ended adds the ended events to a table.
	Ended bool

	// Width is the number of characters of an event's content in a table. Default 60.
	Width int

	// Location is the time zone of times. Default: local.
	Location *time.Location
}

func (o QueueOptions) time(at time.Time) string {
	if o.Location == nil {
		o.Location = time.Local
	}
	return at.In(o.Location).Format(time.DateTime)
}

// Queue returns a table of a queue: the event in progress, pending events in order, failed ones
// and, on request, ended ones. It is empty without events.
func Queue(q signals.Queue, opts QueueOptions) string {
	if opts.Width == 0 {
		opts.Width = 60
	}
	var items []event.Item
	if q.Processing != nil {
		items = append(items, *q.Processing)
	}
	items = append(append(append(items, q.Waiting...), q.Items...), q.Failed...)
	if opts.Ended {
		items = append(items, q.Ended...)
	}
	t := table{head: []string{"STATUS", "PRIORITY", "EVENT", "TYPE", "CREATED", "TTL", "CONTENT"}}
	for _, item := range items {
		t.row(visible(string(item.Status)), strconv.Itoa(item.Priority), visible(item.ID), visible(item.Type), opts.time(item.CreatedAt),
			ttl(item), shorten(summary(item), opts.Width))
	}
	return t.String()
}

func ttl(item event.Item) string {
	if item.TTL == 0 {
		return "-"
	}
	return (time.Duration(item.TTL) * time.Millisecond).String()
}

// summary returns an event on one line: the reason of its failure or end, or else its content.
func summary(item event.Item) string {
	if item.Error != "" {
		return why(item) + ": " + visible(item.Error)
	}
	if !hasPayload(item) {
		return ""
	}
	var m event.NewMessage
	if item.Type == event.TypeMessage && json.Unmarshal(item.Payload, &m) == nil && m.SenderID != "" {
		return visible(m.SenderID) + ": " + visible(m.Content)
	}
	return visible(string(item.Payload))
}

// why returns the reason of an event's status.
func why(item event.Item) string {
	if item.Status == event.ItemFailed {
		return "error"
	}
	return "reason"
}

func hasPayload(item event.Item) bool {
	return len(item.Payload) > 0 && string(item.Payload) != "null"
}

// Item returns all fields of an event.
func Item(item event.Item, opts QueueOptions) string {
	var out strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&out, "%-9s %s\n", name, visible(value))
		}
	}
	line("event", item.ID)
	line("type", item.Type)
	line("status", string(item.Status))
	line(why(item), item.Error)
	if item.Attempt > 0 {
		line("retries", fmt.Sprint(item.Attempt))
	}
	line("priority", fmt.Sprint(item.Priority))
	if item.TTL > 0 {
		end := item.CreatedAt.Add(time.Duration(item.TTL) * time.Millisecond)
		line("ttl", fmt.Sprintf("%s, until %s", ttl(item), opts.time(end)))
	}
	line("thread", item.ThreadID)
	line("namespace", item.Namespace)
	line("trace", item.TraceID)
	line("parent", item.ParentEventID)
	line("created", opts.time(item.CreatedAt))
	line("updated", opts.time(item.UpdatedAt))
	if hasPayload(item) {
		out.WriteString("payload\n" + indented(item.Payload))
	}
	return out.String()
}

func indented(payload json.RawMessage) string {
	var whole bytes.Buffer
	if json.Indent(&whole, payload, "", "  ") != nil {
		whole.Write(payload)
	}
	var out strings.Builder
	for _, line := range strings.Split(whole.String(), "\n") {
		text := strings.TrimLeft(line, " ")
		fmt.Fprintf(&out, "  %s%s\n", line[:len(line)-len(text)], visible(text))
	}
	return out.String()
}
