// Command digest lets an agent write a digest of each working day: a schedule publishes an event,
// and a rule runs the agent.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
	"github.com/threadmill/threadmill/rule"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/signals/threadclient"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
)

const dayEnded = "day.ended"

// daily publishes the event at six in the evening, from Monday to Friday, in summer and winter
// time. Its first run opens the thread.
func daily(threadID string) signals.Schedule {
	return signals.Schedule{
		ThreadID: threadID, Cron: []string{"0 18 * * 1-5"}, Timezone: "Europe/Berlin",
		Event: &event.EnvEvent{Type: dayEnded, Payload: json.RawMessage(`{"shop": "Berlin"}`)},
		Open:  true, Note: "the digest of the day",
	}
}

// wake has the editor handle the event.
var wake = rule.Rule{
	Events: []string{dayEnded}, Priority: 30,
	Agent: &rule.Agent{Name: "editor", Prompt: "Look up the orders of that shop, and write a digest of three sentences."},
}

type shop struct {
	Shop string `json:"shop"`
}

var orders = tool.MustFunc("orders_today", "Lists today's orders of a shop.",
	func(_ context.Context, _ tool.Call, in shop) (string, error) {
		return "2 kettles and a ring, in " + in.Shop, nil
	}, tool.Quick())

// offline is a model that does what a real one would by the prompt.
func offline() llm.Provider {
	lookUp := scripted.Call("orders_today", shop{Shop: "Berlin"}).OnEvent(dayEnded)
	digest := scripted.Say("Berlin has sold 2 kettles and a ring today.").On("2 kettles and a ring")
	lookUp.Always, digest.Always = true, true // every day
	return scripted.New(lookUp, digest)
}

func main() {
	taskQueue := flag.String("task-queue", "example-digest", "task queue of the threads")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, *taskQueue); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, taskQueue string) error {
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		return err
	}
	defer records.Close()
	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "editor", Model: "offline/any", Tools: []string{"orders_today"}}},
		Models: map[string]llm.Provider{"offline": offline()},
		Tools:  []tool.Tool{orders},
		Rules:  []rule.Rule{wake},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	threads, id := runtime.Client(), signals.NewID()
	schedule, err := threads.CreateSchedule(ctx, daily(id))
	if err != nil {
		return err
	}
	err = oneDay(ctx, threads, schedule)
	// A schedule outlives the program that created it, unless it is deleted.
	if err := errors.Join(err, threads.DeleteSchedule(context.WithoutCancel(ctx), schedule.ID)); err != nil {
		return err
	}
	return runtime.CloseThread(ctx, id)
}

// oneDay prints the next runs of the schedule, triggers it now, and prints the digest.
func oneDay(ctx context.Context, threads *threadclient.Client, schedule signals.Schedule) error {
	if err := threads.TriggerSchedule(ctx, schedule.ID); err != nil {
		return err
	}
	view, err := delivered(ctx, threads, schedule.ID)
	if err != nil {
		return err
	}
	berlin, err := time.LoadLocation(schedule.Timezone)
	if err != nil {
		return err
	}
	fmt.Printf("next at %s in %s\n", view.Next[0].In(berlin).Format("15:04"), berlin)

	// The thread already has the event: this waits for its turn.
	today := view.Recent[0]
	turn, err := threads.Turn(ctx, schedule.ThreadID, signals.EnvPost(event.EnvEvent{
		ID: today.EventID, Type: dayEnded, Timestamp: today.ScheduledAt.UnixMilli(),
	}))
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", turn.Message.SenderID, turn.Message.Content)
	return nil
}

// delivered waits until the schedule has run once.
func delivered(ctx context.Context, threads *threadclient.Client, id string) (signals.ScheduleView, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		view, err := threads.Schedule(ctx, id)
		switch {
		case err != nil:
			return view, err
		case len(view.Recent) > 0 && view.Recent[0].Status == "failed":
			return view, fmt.Errorf("the schedule has failed: %s", view.Recent[0].Error)
		case len(view.Recent) > 0 && view.Recent[0].Status == "completed":
			return view, nil
		}
		select {
		case <-ctx.Done():
			return view, ctx.Err()
		case <-tick.C:
		}
	}
}
