package cards

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/agent"
	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/internal/api"
	"github.com/threadmill/threadmill/signals"
	"github.com/threadmill/threadmill/tests/internal/browser"
	"github.com/threadmill/threadmill/tests/internal/harness"
)

// client returns a client of the API.
func client(w *harness.Harness) *api.Client {
	w.T.Helper()
	out, err := api.New(api.Config{Base: w.API.URL})
	require.NoError(w.T, err)
	return out
}

// setAgent stores an agent's definition as somebody else.
func setAgent(w *harness.Harness, by string, version int, definition string) {
	w.T.Helper()
	_, err := client(w).SetAgent(w.Ctx(), "clerk", json.RawMessage(definition), api.AgentChange{By: by, IfVersion: version})
	require.NoError(w.T, err)
}

// storedAgent returns the agent that setAgent stores.
func storedAgent(w *harness.Harness) agent.Detail {
	w.T.Helper()
	detail, err := client(w).Agent(w.Ctx(), "clerk")
	require.NoError(w.T, err)
	return detail
}

// definition is what the form shows as JSON.
const definition = `JSON.parse(document.querySelector("tm-form .json textarea").value)`

// TestPageAgentForm makes an agent in the form and in its JSON, which follow each other, shows the errors of the server at their
// fields, and keeps fields that the form does not know.
func TestPageAgentForm(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL + "/#/agents")
	p.Click("tm-agents a", "New agent")
	p.Until(`document.activeElement.id === "field-name"`)
	p.Write("#field-name", "clerk")
	p.Write("#field-model", "openai/stand-in")
	p.Write("#field-tools", "note\nnotes_of_nobody")
	p.Until(definition + `.tools[1] === "notes_of_nobody"`)
	p.Click("tm-form summary", "Limits")
	p.Write("#field-limits-maxSteps", "many")
	p.Sees("#field-limits-maxSteps-problem", "Write a whole number.")
	p.Until(definition + `.limits === undefined`)
	p.Click("tm-form button", "Save")
	p.Until(`document.activeElement.id === "field-limits-maxSteps"`)
	p.Write("#field-limits-maxSteps", "7")
	p.Until(definition + `.limits.maxSteps === 7`)

	// The JSON changes the form, and a broken one stops it.
	p.Write(".json textarea", `{"name": "clerk", "model": "openai/stand-in", "tools": ["note", "notes_of_nobody"], "limits": {"maxSteps": 8}, "surprise": 1`)
	p.Sees("#json-problem", "This is not JSON")
	p.Until(`document.querySelector(".form-fields").disabled`)
	p.Fill(".json textarea", "}")
	p.Until(`document.querySelector("#field-limits-maxSteps").value === "8" && !document.querySelector(".form-fields").disabled`)
	p.Write("#field-description", "keeps the books")
	p.Until(definition + `.surprise === 1`)

	p.Click("tm-form button", "Save")
	p.Sees(".save .error", "surprise: unexpected property")
	p.Write(".json textarea", `{"name": "clerk", "model": "openai/stand-in", "tools": ["note", "notes_of_nobody"], "description": "keeps the books", "knowledge": {"passages": 2}}`)
	p.Click("tm-form button", "Save")
	p.Sees("#field-tools-problem", "[1]")
	p.Until(`document.querySelector("#field-tools").getAttribute("aria-invalid") === "true" && document.activeElement.id === "field-tools"`)
	p.Write("#field-tools", "note")
	p.Until(`document.querySelector("#field-tools-problem").hidden`)
	p.Click("tm-form button", "Add a tool")
	p.Fill(".map-row input", "note")
	p.Until(definition + `.approvals.note === "always"`)
	p.Click("tm-form button", "Add a rule")
	p.Fill(".row-list input", "small")
	p.Fill(".row-list li [id$=when]", `size(args.text) < 9`)
	p.Until(definition + `.approvalRules[0].when !== undefined`)
	p.Click("tm-form button", "Save")
	p.Sees("tm-agents h2", "clerk")
	p.Until(`location.hash === "#/agents/clerk"`)
	stored := storedAgent(w)
	require.Equal(t, 1, stored.Version)
	require.Equal(t, "ann", stored.By)
	require.Equal(t, "keeps the books", stored.Definition.Description)
	require.Equal(t, 2, stored.Definition.Knowledge.Passages)
	require.Equal(t, map[string]agent.Policy{"note": agent.PolicyAlways}, stored.Definition.Approvals)
	require.Equal(t, "size(args.text) < 9", stored.Definition.ApprovalRules[0].When)
}

// TestPageAgentConflict keeps what is typed when somebody else stores another version, and joins both.
func TestPageAgentConflict(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	setAgent(w, "root", 0, `{"model": "openai/stand-in", "description": "old", "limits": {"maxSteps": 5}}`)
	p := browser.New(t).Open(w.API.URL + "/#/agents/clerk?edit")
	p.Write("#field-description", "mine")
	p.Write("#field-instructions", "Be brief.")
	setAgent(w, "bob", 1, `{"model": "openai/stand-in", "description": "his", "limits": {"maxSteps": 6}}`)
	p.Click("tm-form button", "Save")
	p.Sees(".conflict", "bob has stored version 2")
	p.Sees(".conflict p", "They changed description, limits.maxSteps.")
	p.Sees(".conflict .warning", "You have both changed description.")
	p.Until(`document.querySelector("#field-description").value === "mine"`)
	require.Equal(t, 2, storedAgent(w).Version, "nothing is stored yet")
	p.Click(".conflict button", "Join both, mine where we differ")
	p.Until(`document.querySelector("#field-limits-maxSteps").value === "6" && document.querySelector("#field-description").value === "mine"`)
	p.Click("tm-form button", "Save")
	p.Sees("tm-agents h2", "version 3")
	stored := storedAgent(w).Definition
	require.Equal(t, []any{"mine", "Be brief.", 6}, []any{stored.Description, stored.Instructions, stored.Limits.MaxSteps})
}

// TestPageAgentVersions compares two versions, stores an old one again after a look at what changes, and restores a deleted agent.
func TestPageAgentVersions(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	for i, text := range []string{"one", "two", "three"} {
		setAgent(w, "root", i, fmt.Sprintf(`{"model": "openai/stand-in", "instructions": "Say %s.\nBe brief."}`, text))
	}
	p := browser.New(t).Open(w.API.URL + "/#/agents/clerk")
	p.Sees("tm-versions h3", "Version 2 → 3")
	p.Sees("tm-versions ins", "Say three.")
	p.Click(`tm-versions [aria-label="From version 1"]`, "")
	p.Sees("tm-versions del", "Say one.")
	p.Until(`![...document.querySelectorAll("tm-versions :is(ins, del)")].some((e) => e.textContent.includes("Be brief."))`)
	p.Click(`tm-versions [aria-label="Roll back to version 1…"]`, "")
	p.Sees(".preview", "It becomes version 4.")
	p.Sees(".preview ins", "Say one.")
	setAgent(w, "bob", 3, `{"model": "openai/stand-in", "instructions": "Say four."}`)
	p.Click(".preview button", "Store version 1 again")
	p.Sees(".preview .error", "bob has changed it meanwhile")
	p.Do(chromedp.Reload())
	p.Sees("tm-versions h3", "Version 3 → 4")
	p.Click(`tm-versions [aria-label="Roll back to version 1…"]`, "")
	p.Click(".preview button", "Store version 1 again")
	p.Sees("tm-agents h2", "version 5")
	require.Equal(t, "Say one.\nBe brief.", storedAgent(w).Definition.Instructions)

	p.Click("tm-agents button", "Delete…")
	p.Sees("dialog", "Its versions stay")
	p.Click("dialog button", "Delete it")
	p.Sees("tm-agents .badge", "deleted")
	p.Click(`tm-versions [aria-label="Restore version 5…"]`, "")
	p.Click(".preview button", "Restore version 5")
	p.Sees("tm-agents h2", "version 7")
	require.Equal(t, "Say one.\nBe brief.", storedAgent(w).Definition.Instructions)

	// What the configuration has is only read.
	p.Do(chromedp.Navigate(w.API.URL + "/#/agents/assistant"))
	p.Sees("tm-agents p", "Read-only: it is in the configuration of the server.")
	p.Until(`document.querySelector("tm-versions") === null && [...document.querySelectorAll("tm-agents :is(button, a)")].every((e) => e.textContent !== "Edit" && !e.textContent.includes("Delete"))`)
}

// TestPageScheduleVersions rolls a schedule back that a plain client has changed, and restores one that is deleted.
func TestPageScheduleVersions(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	schedule := signals.Schedule{ID: "standup", ThreadID: "team", Cron: []string{"0 9 * * 1-5"}, Open: true, Message: &event.NewMessage{Content: "What is on today?"}}
	_, err := w.Threads.CreateSchedule(w.Ctx(), schedule)
	require.NoError(t, err)
	p := browser.New(t).Open(w.API.URL + "/#/schedules/standup?edit")
	p.Write("#field-message-content", "What is new?")
	p.Click("tm-form button", "Save")
	p.Sees("tm-versions h3", "Version 1 → 2")
	p.Sees("tm-versions del", "What is on today?")
	p.Sees("tm-versions tbody tr:nth-child(1)", "ann")
	p.Sees("tm-versions tbody tr:nth-child(2)", "another client of Temporal")

	stored := func() signals.Schedule {
		view, err := w.Threads.Schedule(w.Ctx(), "standup")
		require.NoError(t, err)
		return view.Schedule
	}
	changed := stored()
	changed.Cron, changed.Paused, changed.Note = []string{"0 10 * * 1-5"}, true, "holidays"
	_, err = w.Threads.UpdateSchedule(w.Ctx(), changed)
	require.NoError(t, err)
	p.Click(`tm-versions [aria-label="Roll back to version 1…"]`, "")
	p.Click(".preview button", "Store version 1 again")
	p.Sees(".preview .error", "Somebody else has changed it meanwhile")
	p.Do(chromedp.Reload())
	p.Sees("tm-versions h3", "Version 2 → 3")
	p.Click(`tm-versions [aria-label="Roll back to version 1…"]`, "")
	p.Sees(".preview", "It becomes version 4.")
	p.Sees(".preview ins", "What is on today?")
	p.Click(".preview button", "Store version 1 again")
	p.Sees("tm-versions h3", "Version 3 → 4")
	back := stored()
	require.Equal(t, []string{"What is on today?", "0 9 * * 1-5", "holidays"}, []string{back.Message.Content, back.Cron[0], back.Note})
	require.True(t, back.Paused, "what is no part of a version stays")

	p.Click("tm-schedules button", "Delete…")
	p.Sees("dialog", "its versions stay")
	p.Click("dialog button", "Delete it")
	p.Sees("tm-schedules .badge", "deleted")
	p.Click(`tm-versions [aria-label="Restore version 4…"]`, "")
	p.Click(".preview button", "Restore version 4")
	p.Sees("tm-schedules h3", "Next times")
	require.Equal(t, "What is on today?", stored().Message.Content)
}

// TestPageUnsaved asks before people leave a form with changes.
func TestPageUnsaved(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL + "/#/agents?new")
	p.Write("#field-name", "clerk")
	p.Click("#nav a", "Schedules")
	p.Sees("dialog h2", "Leave without saving?")
	p.Click("dialog button", "Cancel")
	p.Until(`location.hash === "#/agents?new" && document.querySelector("#field-name").value === "clerk"`)
	browser.Evaluate[chromedp.Void](p, `document.activeElement.blur()`)
	p.Press("/")
	p.Sees("dialog h2", "Leave without saving?")
	p.Click("dialog button", "Cancel")
	p.Until(`document.querySelector("dialog") === null && document.querySelector("#field-name").value === "clerk"`)
	p.Click("#nav a", "Schedules")
	p.Click("dialog button", "Leave")
	p.Sees("tm-schedules", "There are no schedules.")
	p.Click("tm-schedules a", "New schedule")
	p.Until(`document.querySelector("tm-form") !== null`)
	p.Click("tm-form button", "Cancel")
	p.Sees("tm-schedules", "There are no schedules.")
	p.Click("tm-schedules a", "New schedule")
	p.Write("#field-id", "late")
	browser.Evaluate[chromedp.Void](p, `document.activeElement.blur()`)
	p.Press("/")
	p.Click("dialog button", "Leave")
	p.Until(`document.activeElement.matches("tm-inbox input") && document.querySelector("dialog, tm-form") === null`)
}

// TestPageScheduleForm makes a schedule, shows its next times, and edits it while somebody else does.
func TestPageScheduleForm(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	p := browser.New(t).Open(w.API.URL + "/#/schedules?new")
	p.Write("#field-id", "standup")
	p.Write("#field-threadId", "team")
	p.Write("#field-cron", "0 9 * * 1-5\n61 * * * *")
	p.Write("#field-timezone", "Europe/Berlin")
	p.Write("#field-message-content", "What is on today?")
	p.Fill("#field-message-content", "")
	p.Until(`document.querySelector("#field-message-content").checkVisibility() && document.activeElement.id === "field-message-content" && document.querySelector("tm-form .either input").checked`)
	p.Write("#field-message-content", "What is on today?")
	p.Click("tm-form .either label", "an event")
	p.Until(`document.querySelector("#field-event-type").checkVisibility() && !document.querySelector("#field-message-content").checkVisibility()`)
	p.Until(definition + `.message === undefined`)
	p.Write("#field-event-payload", "{") // it is hidden, and so not in the way, when a message is posted
	p.Sees("#field-event-payload-problem", "This is not JSON")
	p.Click("tm-form .either label", "a message")
	p.Until(definition + `.message.content === "What is on today?" && ` + definition + `.event === undefined`)
	p.Click("tm-form button", "Save")
	p.Sees("#field-cron-problem", "[1]")
	p.Write("#field-cron", "0 9 * * 1-5")
	p.Click("tm-form button", "Save")
	p.Until(`document.querySelectorAll("tm-schedules .times li").length === 10`)
	made, err := w.Threads.Schedule(w.Ctx(), "standup")
	require.NoError(t, err)
	require.Equal(t, []any{"What is on today?", "Europe/Berlin", true}, []any{made.Message.Content, made.Timezone, made.Open})

	p.Click("tm-schedules a", "Edit")
	p.Write("#field-title", "Standup")
	p.Write("#field-message-content", "What is new?")
	other := made.Schedule
	other.Cron, other.Note = nil, "every hour now"
	other.Every = signals.Duration(time.Hour)
	_, err = w.Threads.UpdateSchedule(w.Ctx(), other)
	require.NoError(t, err)
	p.Click("tm-form button", "Save")
	p.Sees(".conflict", "Somebody else has changed it")
	p.Sees(".conflict ins", "every hour now")
	p.Click(".conflict button", "Join both")
	p.Click("tm-form button", "Save")
	p.Sees("tm-schedules .hint", "every 1h")
	now, err := w.Threads.Schedule(w.Ctx(), "standup")
	require.NoError(t, err)
	require.Equal(t, &event.NewMessage{Content: "What is new?", SenderID: made.Message.SenderID, SenderType: made.Message.SenderType}, now.Message)
	require.Equal(t, []string{"every hour now", "Standup"}, []string{now.Note, now.Title})
	require.Empty(t, now.Cron)
}

// TestPageFormsAccessible checks the forms, versions and empty views with axe, in both themes, wide and narrow.
func TestPageFormsAccessible(t *testing.T) {
	t.Parallel()
	w := harness.New(t, harness.Options{})
	const rules = `"approvals": {"note": "always"}, "approvalRules": [{"name": "small", "effect": "allow"}], "tools": ["note"], "limits": {"maxSteps": 3}`
	for i, text := range []string{"one", "two"} {
		setAgent(w, "root", i, fmt.Sprintf(`{"model": "openai/stand-in", "instructions": "Say %s.", %s}`, text, rules))
	}
	b := browser.New(t)
	version := 2
	for _, part := range []struct {
		name, path string
		open       func(*browser.Tab)
	}{
		{"agent", "agents/clerk", func(p *browser.Tab) {
			p.Click(`tm-versions [aria-label="Roll back to version 1…"]`, "")
			p.Sees(".preview ins", "Say one.")
		}},
		{"form", "agents/clerk?edit", func(p *browser.Tab) {
			p.Write("#field-model", "openai/mine")
			p.Write("#field-limits-maxSteps", "many")
			p.Sees("#field-limits-maxSteps-problem", "Write a whole number.")
			p.Write("#field-limits-maxSteps", "4")
			setAgent(w, "bob", version, fmt.Sprintf(`{"model": "openai/other", "instructions": "Say %d.", %s}`, version, rules))
			version++
			p.Click("tm-form button", "Save")
			p.Sees(".conflict .warning", "model")
			p.Click(".json summary", "changes")
			p.Sees(".json ins", "mine")
		}},
		{"schedule", "schedules?new", func(p *browser.Tab) { p.Sees("tm-form h2", "New schedule") }},
		{"empty", "schedules", func(p *browser.Tab) { p.Sees("tm-schedules .empty", "There are no schedules.") }},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.T = t
			p := b.Open(w.API.URL + "/#/" + part.path)
			part.open(p)
			for _, width := range []int64{1440, 390} {
				p.Do(chromedp.EmulateViewport(width, 900))
				p.AccessibleInThemes("")
				p.Until(`document.documentElement.scrollWidth <= innerWidth`)
			}
		})
	}
}
