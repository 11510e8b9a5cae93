package embedded_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/httpapi"
	"github.com/threadmill/threadmill/internal/ops/searchattr"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/threadmilltest/embedded"
	"github.com/threadmill/threadmill/tool"
)

// A runtime in a process that has its own Temporal server: a turn with a tool, and
// the thread's messages over the HTTP API.
func Example_runtime() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	server, err := embedded.Start(ctx, embedded.Config{
		Addr: "127.0.0.1:0", SearchAttributes: searchattr.Types(), Logger: quiet,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	temporal, err := client.DialContext(ctx, client.Options{HostPort: server.Addr(), Logger: sdklog.NewStructuredLogger(quiet)})
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()
	records, err := sqlite.Open(ctx, sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer records.Close()

	type parcel struct {
		Grams int `json:"grams" jsonschema:"weight of the parcel"`
	}
	postage := tool.MustFunc("postage", "Tells what a parcel costs.",
		func(_ context.Context, _ tool.Call, in parcel) (string, error) {
			return fmt.Sprintf("%d cents", 100+in.Grams/10), nil
		}, tool.Quick())

	runtime, err := threadmill.New(threadmill.Config{
		Temporal: temporal,
		Store:    records,
		Models:   map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Tools:    []tool.Tool{postage},
		Agents:   []agent.Agent{{Name: "clerk", Model: "demo/any", Tools: []string{"postage"}}},
		Logger:   quiet,
	})
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- runtime.Run(ctx) }()

	threads := runtime.Client()
	if err := threads.Open(ctx, "t1", signals.Start{}, nil); err != nil {
		log.Fatal(err)
	}
	turn, err := threads.Turn(ctx, "t1", signals.UserMessage("t1", "ann", `use postage {"grams": 500}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(turn.Status, "·", turn.Message.Content)

	api, err := httpapi.New(runtime, httpapi.Config{})
	if err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, "GET", "/v1/threads/t1/messages", nil))
	var page struct{ Messages []event.Message }
	if err := json.NewDecoder(answer.Body).Decode(&page); err != nil {
		log.Fatal(err)
	}
	for _, m := range page.Messages {
		fmt.Println(m.Role, m.SenderID, len(m.ToolCalls))
	}

	cancel()
	fmt.Println(<-stopped)
	// Output:
	// completed · postage returned: 150 cents
	// user ann 0
	// assistant clerk 1
	// tool postage 0
	// assistant clerk 0
	// <nil>
}
