package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
)

// posting has the flags that configure the queueing and the turn of an event.
type posting struct {
	id, onBusy string
	onWaiting  string
	priority   int
	ttl        time.Duration
	tools      []string
	noTools    bool
}

func (p *posting) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.id, "id", "", "id of the event, an idempotency key: duplicates are ignored (default: a new ULID)")
	f.StringVar(&p.onBusy, "on-busy", string(event.OnBusyEnqueue), "what a message does to a turn in progress: enqueue, steer, interrupt or reject")
	f.StringVar(&p.onWaiting, "on-waiting", "", "what a message does to a turn that waits for people: answer, hold or cancel (default: as the agents are configured)")
	f.IntVar(&p.priority, "priority", 0, "higher first, equals in order of arrival")
	f.DurationVar(&p.ttl, "ttl", 0, "how long the event may wait, such as 90s, before it is expired and never processed (default: no limit)")
	f.StringArrayVar(&p.tools, "tool", nil, "tool that agents may call in the event's turn, and no other (repeatable; default: all that they have)")
	f.BoolVar(&p.noTools, "no-tools", false, "let agents call no tools in the event's turn")
}

// apply adds the flags to a post, and completes it for the thread.
func (p *posting) apply(thread string, agents []string, post *signals.Post) error {
	busy := event.OnBusy(p.onBusy)
	if !busy.Valid() {
		return usagef("--on-busy is %q, must be enqueue, steer, interrupt or reject", p.onBusy)
	}
	if busy != event.OnBusyEnqueue { // the default
		post.OnBusy = busy
	}
	if post.OnWaiting = event.OnWaiting(p.onWaiting); p.onWaiting != "" && !post.OnWaiting.Valid() {
		return usagef("--on-waiting is %q, must be answer, hold or cancel", p.onWaiting)
	}
	if p.id != "" {
		if err := signals.ValidateEventID("--id", p.id); err != nil {
			return usageError{err}
		}
		post.ID = p.id
	}
	if p.ttl < 0 || p.ttl != p.ttl.Truncate(time.Millisecond) {
		return usagef("--ttl is %s, must be whole milliseconds, 0 or more, such as 90s", p.ttl)
	}
	if p.noTools && len(p.tools) > 0 {
		return usagef("--no-tools and --tool exclude each other")
	}
	if p.noTools {
		post.Tools = []string{}
	}
	if len(p.tools) > 0 {
		post.Tools = p.tools
	}
	post.Priority, post.TTL, post.Agents = p.priority, p.ttl.Milliseconds(), agents
	if err := threadclient.Prepare(thread, post); err != nil {
		return usageError{err}
	}
	return nil
}
