package recovery

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/threadmill/threadmill/internal/ops/filelock"
)

const (
	suffix = ".tasks"

	// slotSize is the size of a slot in bytes. A slot has one task, as JSON with zero bytes behind it. It lies in one page of
	// memory, so that a kill leaves it whole or as it was.
	slotSize = 2048
)

// head is the first slot of a journal.
type head struct {
	// Boot identifies the running system. Elsewhere, a lock proves nothing: the folder may be on the network.
	Boot string `json:"boot,omitempty"`
}

// Journal has the tasks in progress of a process. A nil Journal has none, and frees none.
type Journal struct {
	folder, path string
	log          *slog.Logger
	head         head

	mu sync.Mutex

	file   *os.File
	closed bool

	// slots are the occupied slots by key of their task, runs the keys of workflow tasks by run, and free the free
	// slots below next.
	slots map[string]slot
	runs  map[string]string
	free  []int64
	next  int64

	// failed means that the last write failed.
	failed bool

	// crashed is what [Journal.Crashed] reports.
	crashed bool

	// complained has the paths of logged errors. Only Open and then the watching goroutine use it.
	complained map[string]bool
}

type slot struct {
	number int64
	size   int
	task   task
}

// Open creates the journal of this process in a folder on a local file system, which it creates if missing. Processes that
// share the folder free each other's tasks: their workers must have the same Temporal server.
func Open(folder string, log *slog.Logger) (*Journal, error) {
	j := &Journal{folder: folder, log: log, head: head{Boot: bootID()}, slots: map[string]slot{}, runs: map[string]string{}, complained: map[string]bool{}, next: 1}
	if err := os.MkdirAll(folder, 0o700); err != nil { //nolint:gosec // an operator names the folder
		return nil, fmt.Errorf("a folder for running tasks: %w", err)
	}
	j.crashed = j.findCrash()
	j.path = filepath.Join(folder, rand.Text()+suffix)
	// Before it is locked, others would take it for that of a dead process.
	draft := j.path + ".new"
	file, err := filelock.Open(draft, os.O_CREATE|os.O_EXCL)
	if err == nil {
		err = errors.Join(write(file, 0, j.head), os.Rename(draft, j.path)) //nolint:gosec // the same
	}
	if err != nil {
		return nil, fmt.Errorf("a file for running tasks: %w", err)
	}
	j.file = file
	return j, nil
}

// Crashed reports whether the system stopped without notice while another process of the folder ran, whose journal no
// [Journal.Watch] has removed yet. Then a database that does not wait for the disk at each commit may have lost the last ones. It is known
// on Linux only.
func (j *Journal) Crashed() bool { return j != nil && j.crashed }

func (j *Journal) findCrash() bool {
	for _, path := range j.others() {
		file, err := filelock.Open(path, 0)
		if err != nil {
			continue // held: its process lives
		}
		h, _, err := read(file)
		_ = file.Close()
		if err == nil && h.Boot != j.head.Boot {
			return true
		}
	}
	return false
}

// others returns the journals of other processes.
func (j *Journal) others() (paths []string) {
	entries, err := os.ReadDir(j.folder)
	if err != nil {
		j.complain(j.folder, err)
	}
	for _, e := range entries {
		if path := filepath.Join(j.folder, e.Name()); path != j.path && strings.HasSuffix(path, suffix) {
			paths = append(paths, path)
		}
	}
	return paths
}

// isAt reports whether an open file is still at a path.
func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}

// Close ends the journal. If there are tasks in progress, which the stopping workers have given up, the lock remains until the
// process ends, as their steps may still run; then another process frees them.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	if j.busy() {
		unfinished.Store(j.path, j.file)
		return nil
	}
	return errors.Join(os.Remove(j.path), j.file.Close())
}

// unfinished has the files that stay open until the process ends: the garbage collector would close them, and so unlock them.
var unfinished sync.Map

// busy reports whether there are tasks in progress.
func (j *Journal) busy() bool {
	for _, s := range j.slots {
		if s.task.Kind != stickyQueue {
			return true
		}
	}
	return false
}

// begin adds a task.
func (j *Journal) begin(t task) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := t.key()
	if _, known := j.slots[key]; known || j.closed {
		return
	}
	if earlier, ok := j.runs[t.run]; ok {
		j.remove(earlier) // it was not answered, and has timed out
	}
	raw, err := json.Marshal(t)
	if err != nil || len(raw) > slotSize {
		return // it waits for its timeout
	}
	number := j.next
	if n := len(j.free); n > 0 {
		number, j.free = j.free[n-1], j.free[:n-1]
	} else {
		j.next++
	}
	j.slots[key] = slot{number, len(raw), t}
	if t.run != "" {
		j.runs[t.run] = key
	}
	j.write(number, raw)
}

// end removes a task that was answered.
func (j *Journal) end(kind string, token []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.remove(task{Kind: kind, Token: token}.key())
	}
}

func (j *Journal) remove(key string) {
	s, ok := j.slots[key]
	if !ok {
		return
	}
	delete(j.slots, key)
	if j.runs[s.task.run] == key {
		delete(j.runs, s.task.run)
	}
	j.free = append(j.free, s.number)
	// All of it: a token has the id of its thread, which may be erased later.
	j.write(s.number, make([]byte, s.size))
}

func (j *Journal) write(number int64, data []byte) {
	_, err := j.file.WriteAt(data, number*slotSize)
	if err != nil && !j.failed {
		j.log.Warn("the journal of running tasks cannot be written: if this process is killed, its tasks continue after their timeouts", "error", err)
	}
	j.failed = err != nil
}

func write(file *os.File, number int64, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(raw, number*slotSize)
	return err
}

// read returns the contents of a journal. A slot that is not whole is skipped.
func read(file *os.File) (h head, tasks []task, err error) {
	data, err := io.ReadAll(file)
	if err != nil {
		return h, nil, err
	}
	for i := 0; len(data) > 0; i++ {
		raw := data[:min(slotSize, len(data))]
		data = data[len(raw):]
		raw, _, _ = bytes.Cut(raw, []byte{0})
		if i == 0 {
			if err := json.Unmarshal(raw, &h); err != nil {
				return h, nil, nil //nolint:nilerr // its process was killed before it received a task
			}
			continue
		}
		var t task
		if len(raw) > 0 && json.Unmarshal(raw, &t) == nil {
			tasks = append(tasks, t)
		}
	}
	return h, tasks, nil
}

// bootID identifies the running system, on Linux; elsewhere it is "". If it is unknown, it equals no other.
func bootID() string {
	if runtime.GOOS != "linux" {
		return ""
	}
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return rand.Text()
	}
	return strings.TrimSpace(string(raw))
}
