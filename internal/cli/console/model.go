package console

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/spinner"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/threadmill/threadmill/internal/text/term"
)

// Messages of the console to its model.
type (
	openMsg    term.Text
	statusMsg  Status
	historyMsg []string
	closeMsg   struct{}
)

// maxInput is the maximum number of rows of the input.
const maxInput = 8

// model is what stands below the complete output.
type model struct {
	console *Console
	height  int

	open    term.Text
	status  Status
	input   textarea.Model
	spinner spinner.Model
	spins   bool

	history []string
	at      int    // the shown line of the history; its length = none
	draft   string // the input while a line of the history is shown

	words   []string // the completions of the last Tab
	word    int
	ended   bool // whether the input has ended
	closing bool
}

func newModel(c *Console) *model {
	m := &model{console: c, input: textarea.New(), spinner: spinner.New(spinner.WithSpinner(spinner.MiniDot)), status: Status{Prompt: prompt}}
	m.input.ShowLineNumbers = false
	m.input.DynamicHeight, m.input.MinHeight, m.input.MaxHeight, m.input.MaxContentHeight = true, 1, maxInput, 10_000
	m.input.CharLimit = 0
	m.input.SetVirtualCursor(false)
	m.input.SetStyles(textarea.Styles{})
	m.input.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter", "ctrl+j"))
	m.setPrompt()
	m.input.Focus()
	return m
}

const prompt = "› "

// setPrompt indents the further rows of the input.
func (m *model) setPrompt() {
	text := m.status.Prompt
	m.input.SetPromptFunc(len([]rune(text)), func(info textarea.PromptInfo) string {
		if info.LineNumber == 0 {
			return text
		}
		return ""
	})
	m.input.SetWidth(max(m.console.cells(), 20))
}

func (m *model) Init() tea.Cmd { return nil }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.console.width.Store(int64(msg.Width))
		m.height = msg.Height
		m.setPrompt()
		return m, nil
	case openMsg:
		m.open = term.Text(msg)
		return m, nil
	case statusMsg:
		m.status = Status(msg)
		m.setPrompt()
		return m, m.spin()
	case historyMsg:
		m.history = append(m.history, msg...)
		m.at = len(m.history)
		return m, nil
	case closeMsg:
		m.open, m.closing = nil, true
		return m, tea.Quit
	case spinner.TickMsg:
		if m.status.Busy == "" {
			m.spins = false
			return m, nil
		}
		var cmd tea.Cmd
		m.spinner, cmd = m.spinner.Update(msg)
		return m, cmd
	case tea.KeyPressMsg:
		if cmd, handled := m.key(msg); handled {
			return m, cmd
		}
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	return m, cmd
}

// spin starts the spinner, which runs while there is something to wait for.
func (m *model) spin() tea.Cmd {
	if m.status.Busy == "" || m.spins {
		return nil
	}
	m.spins = true
	return m.spinner.Tick
}

// key handles the keys that are not those of the input.
func (m *model) key(msg tea.KeyPressMsg) (cmd tea.Cmd, handled bool) {
	pressed := msg.String()
	if pressed != "tab" && pressed != "shift+tab" {
		m.words = nil
	}
	switch pressed {
	case "enter":
		m.enter()
	case "tab":
		m.complete(1)
	case "shift+tab":
		m.complete(-1)
	case "ctrl+c":
		if m.input.Value() != "" {
			m.set("")
			break
		}
		select {
		case m.console.stops <- os.Interrupt:
		default: // enough of them wait
		}
	case "ctrl+d":
		if m.input.Value() != "" {
			return nil, false
		}
		m.ended = true
		m.console.eof()
	case "ctrl+l":
		return tea.ClearScreen, true
	case "ctrl+z":
		return tea.Suspend, true
	case "up":
		if m.input.Line() > 0 || m.input.LineInfo().RowOffset > 0 {
			return nil, false
		}
		m.recall(-1)
	case "down":
		if info := m.input.LineInfo(); m.input.Line() < m.input.LineCount()-1 || info.RowOffset < info.Height-1 {
			return nil, false
		}
		m.recall(1)
	default:
		return nil, false
	}
	return nil, true
}

// enter passes the input on.
func (m *model) enter() {
	text := m.input.Value()
	if m.ended {
		return
	}
	select {
	case m.console.lines <- text:
	default:
		return // it stays in the input until those before it have been taken
	}
	m.set("")
	if strings.TrimSpace(text) != "" && (len(m.history) == 0 || m.history[len(m.history)-1] != text) {
		m.history = append(m.history, text)
	}
	m.at = len(m.history)
}

func (m *model) set(text string) {
	m.input.SetValue(text)
	m.input.MoveToEnd()
}

// recall shows another line of the history.
func (m *model) recall(by int) {
	to := m.at + by
	if to < 0 || to > len(m.history) {
		return
	}
	if m.at == len(m.history) {
		m.draft = m.input.Value()
	}
	m.at = to
	if to == len(m.history) {
		m.set(m.draft)
		return
	}
	m.set(m.history[to])
}

// complete completes the word before the cursor, each time as another one.
func (m *model) complete(by int) {
	text := m.input.Value()
	start := strings.LastIndexAny(text, " \n") + 1
	if m.words == nil {
		m.words, m.word = m.candidates(text[start:], start == 0), -1
		if by < 0 {
			m.word = 0
		}
	}
	if len(m.words) == 0 {
		return
	}
	m.word = (m.word + by + len(m.words)) % len(m.words)
	rest := m.words[m.word]
	if len(m.words) == 1 {
		rest += " "
	}
	m.set(text[:start] + rest)
	if len(m.words) == 1 {
		m.words = nil
	}
}

func (m *model) candidates(word string, first bool) []string {
	var from []string
	switch {
	case strings.HasPrefix(word, "@"):
		for _, name := range m.status.Names {
			from = append(from, "@"+name)
		}
	case strings.HasPrefix(word, "/") && first:
		from = m.console.opts.Commands
	}
	return slices.DeleteFunc(slices.Clone(from), func(c string) bool { return !strings.HasPrefix(strings.ToLower(c), strings.ToLower(word)) })
}

func (m *model) View() tea.View {
	if m.closing {
		return tea.NewView("")
	}
	var above []string
	if len(m.open) > 0 {
		rows := strings.Split(m.console.render(flat(wrap(m.open, m.console.cells()))), "\n")
		if most := max(m.height-maxInput-3, 3); m.height > 0 && len(rows) > most {
			rows = rows[len(rows)-most:]
		}
		above = append(above, rows...)
	}
	if m.status.Busy != "" {
		line := m.spinner.View() + " " + m.status.Busy
		if seconds := int(time.Since(m.status.Since).Seconds()); !m.status.Since.IsZero() && seconds > 0 {
			line += fmt.Sprintf(" · %d s", seconds)
		}
		above = append(above, m.dim(line))
	}
	content := append(slices.Clone(above), m.input.View())
	if len(m.words) > 1 {
		content = append(content, m.dim(strings.Join(m.words, "  ")))
	} else if m.status.Title != "" {
		content = append(content, m.dim(m.status.Title))
	}
	view := tea.NewView(strings.Join(content, "\n"))
	view.WindowTitle = term.Line(m.status.Title)
	if cursor := m.input.Cursor(); cursor != nil {
		cursor.Y += len(above)
		view.Cursor = cursor
	}
	return view
}

// dim returns one row of a remark.
func (m *model) dim(text string) string {
	row := []rune(term.Line(text))
	if n := m.console.cells(); n > 0 && len(row) > n {
		row = append(row[:n-1], '…')
	}
	return term.Render(term.Text{{Style: term.Dim, Text: string(row)}}, m.console.opts.Color)
}

// flat joins lines.
func flat(lines []term.Text) term.Text {
	var out term.Text
	for i, line := range lines {
		if i > 0 {
			out = append(out, term.Span{Text: "\n"})
		}
		out = append(out, line...)
	}
	return out
}
