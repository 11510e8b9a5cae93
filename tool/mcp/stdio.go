package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/internal/process"
)

const (
	// stopGrace is the time for which a program may end by itself after its stdin has closed, and again
	// after SIGTERM.
	stopGrace = 2 * time.Second

	// writeTimeout is the time for which a program may not read from its stdin.
	writeTimeout = 30 * time.Second
)

// program is the running program of a server.
type program struct {
	command *process.Command
	kill    context.CancelFunc
	stdin   *os.File
	in      *messages
	log     *tail
	ended   chan struct{} // closed when no process remains
	exit    string        // how it ended, once it has
	stop    sync.Once
}

// startProgram starts a server's program, and returns the transport to it.
func startProgram(s Server, log *tail) (*program, sdk.Transport, error) {
	if !process.Supported {
		return nil, nil, errors.New("servers that are programs need a Unix system")
	}
	ctx, kill := context.WithCancel(context.Background())
	command, err := process.New(ctx, s.Command, stopGrace)
	if err != nil {
		kill()
		return nil, nil, err
	}
	var pipes [3][2]*os.File
	for i := range pipes {
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			kill()
			closeAll(pipes[:i])
			return nil, nil, err
		}
	}
	in, out, stderr := pipes[0], pipes[1], pipes[2]
	command.Cmd.Dir, command.Cmd.Env = s.Dir, environment(s.Env)
	command.Cmd.Stdin, command.Cmd.Stdout, command.Cmd.Stderr = in[0], out[1], stderr[1]
	if err := command.Start(); err != nil {
		kill()
		closeAll(pipes[:])
		return nil, nil, err
	}
	for _, childs := range []*os.File{in[0], out[1], stderr[1]} {
		_ = childs.Close()
	}
	p := &program{command: command, kill: kill, stdin: in[1], in: newMessages(out[0], log.line), log: log, ended: make(chan struct{})}
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		p.readLog(stderr[0])
	}()
	go func() {
		defer close(p.ended)
		err := command.Wait()
		_ = stderr[0].SetReadDeadline(time.Now().Add(stopGrace))
		<-logged
		_ = stderr[0].Close()
		p.exit = exitText(command, err)
	}()
	return p, &sdk.IOTransport{
		Reader:        readCloser{p.in, out[0]},
		Writer:        patientWriter{in[1]},
		MaxLineLength: maxMessage + 1<<10,
	}, nil
}

func closeAll(pipes [][2]*os.File) {
	for _, p := range pipes {
		_, _ = p[0].Close(), p[1].Close()
	}
}

func environment(env map[string]Secret) []string {
	out := process.Environment()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+string(env[name]))
	}
	return out
}

func exitText(command *process.Command, err error) string {
	if command.Cmd.ProcessState == nil {
		return fmt.Sprintf("its program could not be run: %v", err)
	}
	code := process.ExitStatus(command.Cmd.ProcessState.Sys())
	if code > 128 {
		return fmt.Sprintf("its program was ended by signal %d", code-128)
	}
	return fmt.Sprintf("its program ended with exit code %d", code)
}

// close ends the program: it closes its stdin, waits, and stops what remains. It returns when no process
// remains.
func (p *program) close() {
	p.stop.Do(func() {
		_ = p.stdin.Close()
		timer := time.NewTimer(stopGrace)
		defer timer.Stop()
		select {
		case <-p.ended:
		case <-timer.C:
		}
		p.kill()
	})
	<-p.ended
}

// readLog reads stderr. A program that floods it is slowed down.
func (p *program) readLog(stderr io.Reader) {
	const rate, burst = 1 << 20, 4 << 20
	m := newMeter(rate, burst, rate, burst)
	buf := make([]byte, 32<<10)
	for {
		n, err := stderr.Read(buf)
		p.log.write(buf[:n])
		m.take(n, 0)
		if err != nil {
			return
		}
	}
}

// tail keeps the end of what a program writes besides messages.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > maxLog {
		p = p[len(p)-maxLog:]
	}
	t.text = append(t.text, p...)
	if extra := len(t.text) - maxLog; extra > maxLog {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
}

func (t *tail) line(p []byte) {
	if len(p) > maxLog {
		p = p[:maxLog]
	}
	t.write(append(slices.Clone(p), '\n'))
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := t.text[max(len(t.text)-maxLog, 0):]
	return clean(strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD")), maxLog)
}

type readCloser struct {
	io.Reader
	io.Closer
}

// patientWriter fails if the program does not read: without a deadline, its callers would wait for
// ever.
type patientWriter struct{ *os.File }

func (w patientWriter) Write(p []byte) (int, error) {
	_ = w.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := w.File.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the program has not read its input for %s", writeTimeout)
	}
	return n, err
}
