package console

import (
	"cmp"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/threadmill/threadmill/internal/text/term"
)

// Options configure a [Console].
type Options struct {
	// In and Out are the terminal.
	In, Out *os.File

	// Color allows styles.
	Color bool

	// Commands are completed at the beginning of the input.
	Commands []string
}

// Status is what stands around the input line.
type Status struct {
	// Prompt stands before the input.
	Prompt string

	// Busy says what is being waited for, since when. Empty = nothing.
	Busy  string
	Since time.Time

	// Title stands below the input, and is the title of the window.
	Title string

	// Names are completed behind an @.
	Names []string
}

// Console is a terminal that a person talks through. Its methods can be called by one goroutine.
type Console struct {
	opts    Options
	program *tea.Program
	width   atomic.Int64
	lines   chan string
	stops   chan os.Signal
	ended   chan struct{}
	eof     func() // closes lines

	mu     sync.Mutex // protects flow, and the order of what it completes
	flow   flow
	status Status
}

// frames is a terminal that tells when it has got the first frame.
type frames struct {
	*os.File
	began func()
}

func (f frames) Write(p []byte) (int, error) {
	defer f.began()
	return f.File.Write(p)
}

// Start takes the terminal over until [Console.Close].
func Start(opts Options) *Console {
	c := &Console{opts: opts, lines: make(chan string, 16), stops: make(chan os.Signal, 4), ended: make(chan struct{})}
	began := make(chan struct{})
	c.eof = sync.OnceFunc(func() { close(c.lines) })
	c.program = tea.NewProgram(newModel(c), tea.WithInput(opts.In), tea.WithOutput(frames{opts.Out, sync.OnceFunc(func() { close(began) })}), tea.WithoutSignalHandler())
	go func() {
		defer close(c.ended)
		_, _ = c.program.Run() // whatever ended it
		c.eof()
	}()
	// What is printed before the first frame would be placed as if that filled the terminal.
	select {
	case <-began:
	case <-c.ended:
	}
	return c
}

// Lines are what the person enters. The channel is closed at the end of the input.
func (c *Console) Lines() <-chan string { return c.lines }

// Interrupts delivers Ctrl-C.
func (c *Console) Interrupts() <-chan os.Signal { return c.stops }

// Print writes text above the input line.
func (c *Console) Print(text term.Text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.above(c.flow.add(text, c.cells()))
	c.program.Send(openMsg(c.flow.open()))
}

// SetStatus shows a status.
func (c *Console) SetStatus(s Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !same(s, c.status) {
		c.status = s
		c.program.Send(statusMsg(s))
	}
}

func same(a, b Status) bool {
	return a.Prompt == b.Prompt && a.Busy == b.Busy && a.Since.Equal(b.Since) && a.Title == b.Title && strings.Join(a.Names, "\n") == strings.Join(b.Names, "\n")
}

// Remember adds to the history of the input.
func (c *Console) Remember(lines []string) { c.program.Send(historyMsg(lines)) }

// Close completes the output and gives the terminal back.
func (c *Console) Close() {
	c.mu.Lock()
	c.above(c.flow.rest(c.cells()))
	c.mu.Unlock()
	c.program.Send(closeMsg{})
	<-c.ended
}

// above writes complete lines for good.
func (c *Console) above(lines []term.Text) {
	if len(lines) == 0 {
		return
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = c.render(line)
	}
	// Program.Println would block once the program has ended.
	c.program.Send(tea.Println(cmp.Or(strings.Join(out, "\n"), " "))())
}

// render returns text whose lines fit into the terminal.
func (c *Console) render(text term.Text) string {
	rendered := strings.ReplaceAll(term.Render(text, c.opts.Color), "\t", "    ")
	if n := c.cells(); n > 0 {
		return ansi.Wrap(rendered, n, "")
	}
	return rendered
}

func (c *Console) cells() int { return int(c.width.Load()) }
