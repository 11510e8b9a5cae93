// Command shellrules lets an agent run commands by rules: some run without approval, some never
// run, and a person decides on all others and may grant more than the one call.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/approval"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/demo"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/store/sqlite"
	"github.com/threadmill/threadmill/tool"
	"github.com/threadmill/threadmill/tool/shell"
)

// rules decide on each call. A denial wins over all other rules and over grants; otherwise the
// first matching rule decides. Commands that may run without approval are spelt out from ^ to $.
// Denials catch accidents: a shell has more ways to do harm than rules can name.
var rules = []approval.Rule{{
	Name:   "reading is free",
	When:   `args.command.matches("^(ls|cat|wc)( [A-Za-z0-9._-]+)*$") && !args.command.contains("..")`,
	Effect: approval.EffectAllow,
}, {
	Name:   "nothing is lost",
	When:   `args.command.matches(r"\b(rm|rmdir|unlink|shred)\b|--output")`,
	Effect: approval.EffectDeny,
	Reason: "What is there stays there.",
}, {
	Name:   "all else asks",
	Effect: approval.EffectAsk,
	Terms:  approval.Terms{Approvers: []string{"bob"}},
}}

// answers are bob's decisions, by command. He denies all others.
var answers = map[string]signals.Decide{
	// This exact command may run again.
	"echo hi | tee hi.txt": {Decision: event.DecisionApprove, Scope: event.ScopeSession},
	// So may matching ones. A wildcard matches options, but nothing that a shell interprets.
	"git log --format=%s": {Decision: event.DecisionApprove, Scope: event.ScopePattern, Pattern: map[string]string{"command": "git log*"}},
}

func main() {
	taskQueue := flag.String("task-queue", "example-shellrules", "task queue of the threads")
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
	folder, err := os.MkdirTemp("", "shellrules-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := furnish(ctx, folder); err != nil {
		return err
	}
	commands, err := shell.New(shell.Config{Root: folder})
	if err != nil {
		return err
	}
	runtime, err := threadmill.New(threadmill.Config{
		TaskQueue: taskQueue, Store: records,
		Agents: []agent.Agent{{Name: "clerk", Model: "demo/any", Tools: []string{"shell_cmd"}, ApprovalRules: rules}},
		Models: map[string]llm.Provider{"demo": demo.New(demo.Config{Quiet: true})},
		Tools:  []tool.Tool{commands},
	})
	if err != nil {
		return err
	}
	if err := runtime.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = runtime.Stop(ctx) }()

	s := session{runtime: runtime, records: records, id: signals.NewID()}
	if err := s.work(ctx); err != nil {
		return err
	}
	return runtime.CloseThread(ctx, s.id)
}

// furnish makes the folder a repository with a note in it.
func furnish(ctx context.Context, folder string) error {
	cmd := exec.CommandContext(ctx, "sh", "-ec", `
		echo "buy milk" > notes.txt
		git init -q
		git add .
		git -c user.name=ann -c user.email=ann@example.com commit -q -m "Add notes"`)
	cmd.Dir, cmd.Env = folder, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a repository: %w: %s", err, out)
	}
	return nil
}

// session is a thread in which an agent runs commands.
type session struct {
	runtime *threadmill.Runtime
	records store.Store
	id      string
}

func (s session) work(ctx context.Context) error {
	for _, command := range []string{
		"cat notes.txt",
		"rm notes.txt",
		"echo hi | tee hi.txt",
		"echo hi | tee hi.txt",
		"echo ho | tee hi.txt",
		"git log --format=%s",
		"git log -1 --format=%s,%an",
		"git log -1 --format=%s,%an | tee log.txt",
		"git log --output=notes.txt",
	} {
		if err := s.command(ctx, command); err != nil {
			return err
		}
	}
	if err := s.revokePatterns(ctx); err != nil {
		return err
	}
	if err := s.command(ctx, "git log -1 --format=%s,%an"); err != nil {
		return err
	}
	return s.showGrants(ctx)
}

// command lets the agent run a command, and prints the request, the decision and the result. The
// offline model calls a tool for each line that begins with "use".
func (s session) command(ctx context.Context, command string) error {
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return err
	}
	m := event.NewMessage{ThreadID: s.id, SenderID: "ann", Content: "use shell_cmd " + string(args)}
	turn, err := s.runtime.Send(ctx, m, threadmill.SendOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("$ %s\n", command)
	denied := false
	for e, err := range turn.Events() {
		if err != nil {
			return err
		}
		switch e.Type {
		case event.EventApprovalRequest:
			fmt.Printf("  asks %s: %s\n", strings.Join(e.Request.Approvers, ", "), e.Request.Reason)
			if err := s.decide(ctx, command, e.Request.ToolCallID); err != nil {
				return err
			}
		case event.EventApproval:
			denied = e.Approval.Decision == event.DecisionDeny
			fmt.Println("  " + decided(*e.Approval))
		case event.EventToolResult:
			if !denied {
				fmt.Println("  ran: " + printed(e.Output))
			}
		default:
		}
	}
	_, err = turn.Wait(ctx)
	return err
}

// decide sends bob's decision.
func (s session) decide(ctx context.Context, command, toolCallID string) error {
	decision, known := answers[command]
	if !known {
		decision = signals.Decide{Decision: event.DecisionDeny, Reason: "What for?"}
	}
	decision.ToolCallID, decision.By = toolCallID, "bob"
	_, err := s.runtime.Client().Decide(ctx, s.id, decision)
	return err
}

func decided(a event.Approval) string {
	switch {
	case a.Decision == event.DecisionDeny:
		return fmt.Sprintf("denied by %s: %s", a.By, a.Reason)
	case a.Grant != "":
		return fmt.Sprintf("covered by what %s has granted", a.By)
	}
	return fmt.Sprintf("approved by %s, scope %s", a.By, a.Scope)
}

// printed returns the output of a command.
func printed(result string) string {
	var out shell.Output
	if err := json.Unmarshal([]byte(result), &out); err != nil {
		return result
	}
	return strings.TrimSpace(out.Stdout + out.Stderr)
}

// grants returns the grants in the thread, from its records.
func (s session) grants(ctx context.Context) ([]approval.Grant, error) {
	key := store.Key{Namespace: s.runtime.Client().Namespace(), ThreadID: s.id}
	records, err := s.records.Records(ctx, key, store.Query{Types: []string{event.TypeApproval}})
	if err != nil {
		return nil, err
	}
	return approval.ReadHistory(records).Grants(), nil
}

// revokePatterns revokes the grants by pattern.
func (s session) revokePatterns(ctx context.Context) error {
	grants, err := s.grants(ctx)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Scope != event.ScopePattern {
			continue
		}
		outcome, err := s.runtime.Client().Revoke(ctx, s.id, signals.Revoke{ToolCallID: g.ID, By: "bob"})
		if err != nil {
			return err
		}
		fmt.Printf("bob revokes %s: %s\n", g.Pattern["command"], outcome)
	}
	return nil
}

func (s session) showGrants(ctx context.Context) error {
	grants, err := s.grants(ctx)
	if err != nil {
		return err
	}
	fmt.Println("grants:")
	for _, g := range grants {
		covers, state := "the same call", "holds"
		if g.Scope == event.ScopePattern {
			covers = g.Pattern["command"]
		}
		if g.RevokedAt != nil {
			state = "revoked by " + g.RevokedBy
		}
		fmt.Printf("  %s of %s, by %s for %s: %s, %s\n", g.Scope, g.ToolName, g.By, g.Agent, covers, state)
	}
	return nil
}
