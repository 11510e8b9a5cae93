package render

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
)

// Queue returns a table of a queue: the event in progress, pending events in order, failed ones
// and, on request, ended ones. It is empty without events.
func Queue(q signals.Queue, opts TableOptions) string {
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
			ttl(item), opts.shorten(summary(item), 60))
	}
	return t.String()
}

func ttl(item event.Item) string {
	if item.TTL == 0 {
		return ""
	}
	return (time.Duration(item.TTL) * time.Millisecond).String()
}

// summary returns an event on one line: the reason of its failure or end, or else its content.
func summary(item event.Item) string {
	if item.Error != "" {
		return whyEnded(item.Status == event.ItemFailed) + ": " + visible(item.Error)
	}
	if isNull(item.Payload) {
		return ""
	}
	var m event.NewMessage
	if item.Type == event.TypeMessage && json.Unmarshal(item.Payload, &m) == nil && m.SenderID != "" {
		return visible(m.SenderID) + ": " + visible(m.Content)
	}
	return visible(string(item.Payload))
}

// Item returns all fields of an event.
func Item(item event.Item, opts TableOptions) string {
	var f fields
	f.add("event", item.ID)
	f.add("type", item.Type)
	f.add("status", string(item.Status))
	f.add(whyEnded(item.Status == event.ItemFailed), item.Error)
	if item.Attempt > 0 {
		f.add("retries", fmt.Sprint(item.Attempt))
	}
	f.add("priority", fmt.Sprint(item.Priority))
	if item.TTL > 0 {
		end := item.CreatedAt.Add(time.Duration(item.TTL) * time.Millisecond)
		f.add("ttl", fmt.Sprintf("%s, until %s", ttl(item), opts.time(end)))
	}
	f.add("thread", item.ThreadID)
	f.add("namespace", item.Namespace)
	f.add("trace", item.TraceID)
	f.add("parent", item.ParentEventID)
	f.add("created", opts.time(item.CreatedAt))
	f.add("updated", opts.time(item.UpdatedAt))
	f.addJSON("payload", item.Payload)
	return f.String()
}
