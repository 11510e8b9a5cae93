package document

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/reexec"
	"golang.org/x/sync/semaphore"

	"github.com/threadmill/threadmill/internal/library/document/format"
)

// Bounds of a process that reads a document. They grow with the document, so that many small ones are read beside a large one.
const (
	minMemory, maxMemory = 256 << 20, 512 << 20
	memoryPerByte        = 160 // what HTML takes, which takes most

	// ownMemory is what a process takes besides, before it reads: the program and its runtime, and what the kernel counts late.
	ownMemory = 128 << 20

	// allMemory is what all processes may take at once.
	allMemory = 960 << 20

	minCPU, maxCPU = 5 * time.Second, time.Minute
	cpuPerByte     = 10 * time.Second / (1 << 20)

	// patience is how much longer than its limit of CPU a process may take, on a machine that does other things.
	patience = 20
)

// atOnce bounds the memory of all processes that read documents.
var atOnce = semaphore.NewWeighted(allMemory)

// job is what a process is told about the document that it reads. The content comes by its standard input.
type job struct {
	Compile         bool // compile PDFium, and read nothing
	Name, MediaType string
	Limits          Limits
	Memory          int           // in bytes
	CPU             time.Duration // of both, of the user and of the system
	Cache           string        // the folder of compiled code
}

// reply is what a process answers.
type reply struct {
	Text
	Reason string `json:",omitempty"`
}

// processName is the name by which the program reads a document, instead of what it does otherwise.
const processName = "threadmill-document"

// The program of a worker is that of whoever uses the library, so the name is looked at before its main function.
func init() {
	reexec.Register(processName, readStdin)
	if reexec.Init() {
		os.Exit(0)
	}
}

// readStdin reads the document that another process sends.
func readStdin() {
	var j job
	err := json.Unmarshal([]byte(os.Args[1]), &j)
	if err == nil {
		err = restrict(j.Memory, j.CPU)
	}
	var content []byte
	if err == nil {
		content, err = io.ReadAll(os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var out reply
	if j.Compile {
		_, err = startPDFium(j)
	} else {
		out.Text, err = parse(j, content)
	}
	if err != nil {
		out.Reason = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Read reads a document in a process of its own, which has nothing of this one but the document: what a document does to its
// reader, it does to that process. The error is an [*Error], that of the context, or one of a machine that starts no process.
func Read(ctx context.Context, f File, limits Limits) (Text, error) {
	j := job{Name: f.Name, MediaType: f.MediaType, Limits: limits.withDefaults()}
	if len(f.Content) > j.Limits.Bytes {
		return Text{}, unreadable("the document has %d bytes; the limit is %d", len(f.Content), j.Limits.Bytes)
	}
	if kind, _ := format.Detect(f.Name, f.MediaType, f.Content); kind == format.PDF {
		var err error
		if j.Cache, err = compiled(); err != nil {
			return Text{}, err
		}
	}
	j.Memory = min(maxMemory, minMemory+memoryPerByte*len(f.Content))
	j.CPU = min(maxCPU, minCPU+cpuPerByte*time.Duration(len(f.Content)))
	memory := int64(j.Memory + ownMemory)
	if err := atOnce.Acquire(ctx, memory); err != nil {
		return Text{}, err
	}
	defer atOnce.Release(memory)
	return j.run(ctx, f.Content)
}

func (j job) run(ctx context.Context, content []byte) (Text, error) {
	told, err := json.Marshal(j)
	if err != nil {
		return Text{}, err
	}
	limited, cancel := context.WithTimeout(ctx, patience*j.CPU)
	defer cancel()
	out := &limitedBuffer{max: 4*j.Limits.Text + 1<<20} // a text in JSON
	var stderr limitedBuffer
	stderr.max = 64 << 10
	cmd := exec.CommandContext(limited, reexec.Self()) //nolint:gosec // the program itself
	cmd.Args = []string{processName, string(told)}
	cmd.Env = []string{"GOTRACEBACK=none"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(content), out, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return Text{}, fmt.Errorf("a process that reads the document: %w", err)
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return Text{}, ctx.Err()
	case out.full:
		return Text{}, unreadable("the document has more than %d bytes of text, which is the limit: split it", j.Limits.Text)
	case limited.Err() != nil || err != nil && used(cmd.ProcessState) >= j.CPU:
		return Text{}, unreadable("reading the document takes more than %s, which is the limit for its size", j.CPU.Round(time.Second))
	case err != nil && noMemory.MatchString(stderr.String()):
		return Text{}, unreadable("reading the document takes more than %d MiB of memory, which is the limit for its size", j.Memory>>20)
	case err != nil:
		first, _, _ := strings.Cut(stderr.String(), "\n")
		return Text{}, unreadable("the document ended the process that read it: %s", cmp.Or(first, err.Error()))
	}
	var got reply
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return Text{}, unreadable("the document ended the process that read it: its answer is broken")
	}
	if got.Reason != "" {
		return Text{}, &Error{Reason: got.Reason}
	}
	return got.Text, nil
}

// noMemory is what Go's runtime says when the kernel gives it no more memory, wherever it needs some.
var noMemory = regexp.MustCompile("out of memory|allocate memory|failed to create new OS thread|pthread_create failed|SIGSEGV")

// used returns the CPU time of a process, with the tenth by which the kernel counts more.
func used(p *os.ProcessState) time.Duration { return (p.UserTime() + p.SystemTime()) * 10 / 9 }

// compiled compiles PDFium unless that was done on this machine, and returns the folder of its code. It has time and memory of
// its own: those of a document are for the document.
var compiled = sync.OnceValues(func() (cache string, err error) {
	if cache, err = cacheFolder(); err == nil {
		_, err = job{Compile: true, Cache: cache, Memory: 2 * maxMemory, CPU: 10 * maxCPU}.run(context.Background(), nil)
	}
	if err != nil {
		return "", fmt.Errorf("compile PDFium: %w", err)
	}
	return cache, nil
})

// limitedBuffer keeps what a process writes, up to a number of bytes.
type limitedBuffer struct {
	bytes.Buffer
	max  int
	full bool
}

var errFull = errors.New("too much output")

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		b.full = true
		return 0, errFull
	}
	return b.Buffer.Write(p)
}

// cacheFolder returns a folder for the compiled code of PDFium: one of the user, so that it is compiled once on a machine, or else
// one of this process.
func cacheFolder() (string, error) {
	if users, err := os.UserCacheDir(); err == nil {
		folder := filepath.Join(users, "threadmill", "pdfium")
		if os.MkdirAll(folder, 0o700) == nil {
			return folder, nil
		}
	}
	return os.MkdirTemp("", "threadmill-pdfium-")
}
