package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// raw is a server that is written without the SDK, so that it can do everything wrong. It speaks the
// old protocol.
type raw struct {
	out   *bufio.Writer
	mu    sync.Mutex
	tools string // the JSON of the list
	call  func(r *raw, c rawCall)

	once bool // it reads nothing after the first call
	deaf bool // it dies of the new protocol

	// note handles notifications and responses.
	note func(r *raw, line string)

	answersMu sync.Mutex
	answers   map[string]chan json.RawMessage
}

type rawCall struct {
	id    string // JSON
	name  string
	token string // JSON
	args  json.RawMessage
}

const oneTool = `[{"name":"do","description":"Does.","inputSchema":{"type":"object"}}]`

func (r *raw) line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format+"\n", args...)
	_ = r.out.Flush()
}

func (r *raw) result(id, result string) { r.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result) }

func (r *raw) text(id, text string) {
	quoted, _ := json.Marshal(text)
	r.result(id, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted))
}

// ask asks a question of the old protocol and returns the result, or an error.
func (r *raw) ask(id, params string) json.RawMessage {
	ch := make(chan json.RawMessage, 1)
	r.answersMu.Lock()
	r.answers[id] = ch
	r.answersMu.Unlock()
	r.line(`{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":%s}`, id, params)
	return <-ch
}

func (r *raw) serve(in io.Reader) {
	r.answers = map[string]chan json.RawMessage{}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		var msg struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Params struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
				Meta      struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if json.Unmarshal(scanner.Bytes(), &msg) != nil {
			continue
		}
		id := string(msg.ID)
		switch {
		case r.deaf && msg.Method == "server/discover":
			os.Exit(1)
		case msg.Method == "initialize":
			r.result(id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"},"instructions":"Use me.\u001b[2J"}`)
		case msg.Method == "tools/list":
			r.result(id, `{"tools":`+r.tools+`}`)
		case msg.Method == "tools/call":
			go r.call(r, rawCall{id, msg.Params.Name, string(msg.Params.Meta.Token), msg.Params.Arguments})
			if r.once {
				time.Sleep(time.Hour)
			}
		case msg.Method == "ping":
			r.result(id, `{}`)
		case msg.Method != "" && id != "":
			r.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		case msg.Method == "" && id != "":
			r.answersMu.Lock()
			ch := r.answers[strings.Trim(id, `"`)]
			r.answersMu.Unlock()
			if ch != nil {
				ch <- msg.Result
			}
		default:
			if r.note != nil {
				r.note(r, scanner.Text())
			}
		}
	}
}

// rawServers are the hostile servers, by name. Their working directory belongs to the test.
func rawServer(name string) *raw {
	r := &raw{out: bufio.NewWriter(os.Stdout), tools: oneTool, call: func(r *raw, c rawCall) { r.text(c.id, "done") }}
	switch name {
	case "invalid-json":
		r.call = func(r *raw, c rawCall) {
			r.line(`{"jsonrpc":"2.0","id":%s,"result":{"content":[`, c.id)
		}
	case "environment":
		fmt.Fprintln(os.Stderr, "token:", os.Getenv("TOKEN"))
		r.call = func(r *raw, c rawCall) { r.text(c.id, strings.Join(os.Environ(), "\n")) }
	case "full":
		r.call = func(r *raw, _ rawCall) { time.Sleep(time.Hour) } // the runtime ends a program in which all wait for ever
		r.once = true
	case "old":
		r.deaf = true
	case "chatty":
		r.line("\ufeffServer is starting …")
		r.line(`{"level":"info","msg":"started"}`)
		r.line(`{"jsonrpc":2,"id":1}`)
		r.line(`{"jsonrpc":"2.0","id":{},"result":{}}`)
		r.line(`{"jsonrpc":"2.0","msg":"started"}`)
		r.line(`[]`)
		r.line(`[{"level":"info"}]`)
	case "byte-order-mark":
		_, _ = r.out.WriteString("\ufeff")
	case "structured":
		r.call = func(r *raw, c rawCall) { r.result(c.id, resultIn(c.args)) }
	case "broken-envelope":
		r.call = func(r *raw, _ rawCall) { r.line(`{"jsonrpc":"2.0","id":1,"method":7}`) }
	case "not-a-result":
		r.call = func(r *raw, c rawCall) { r.result(c.id, `{"content":[{"type":"hologram"}]}`) }
	case "large":
		r.call = func(r *raw, c rawCall) { r.text(c.id, strings.Repeat("x", 50<<20)) }
	case "large-list":
		r.tools = `[{"name":"do","description":"` + strings.Repeat("x", 50<<20) + `"}]`
	case "many":
		var list []string
		for i := range 10_000 {
			list = append(list, fmt.Sprintf(`{"name":"tool%05d","inputSchema":{"type":"object"}}`, i))
		}
		r.tools = "[" + strings.Join(list, ",") + "]"
	case "odd":
		r.tools = oddTools()
	case "silent":
		r.call = func(*raw, rawCall) {}
		r.note = noteToFile
	case "late":
		var first sync.Once
		held := make(chan rawCall, 1)
		r.call = func(r *raw, c rawCall) {
			hold := false
			first.Do(func() { hold = true })
			if hold {
				held <- c
				_ = os.WriteFile("held", nil, 0o600)
				return
			}
			r.text(c.id, "second")
		}
		r.note = func(r *raw, line string) {
			if strings.Contains(line, "notifications/cancelled") {
				r.text((<-held).id, "too late")
			}
		}
	case "forks":
		fork := exec.Command("setsid", "sh", "-c", `trap "" TERM HUP; echo $$ > child; while :; do sleep 0.05; done`)
		if err := fork.Start(); err != nil {
			panic(err)
		}
		_ = os.WriteFile("server", []byte(fmt.Sprint(os.Getpid())), 0o600)
	case "flood":
		r.call = func(r *raw, c rawCall) {
			noise := strings.Repeat("x", 1<<10)
			for i := range 20_000 {
				fmt.Fprintln(os.Stderr, noise[:100])
				if i < 3000 {
					r.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":"%s\u001b[2J"}}`, c.token, i, noise)
					r.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
				}
			}
			r.text(c.id, "after the flood")
		}
	case "changes":
		r.call = func(r *raw, c rawCall) {
			r.tools = `[{"name":"do","description":"Does more.","inputSchema":{"type":"object"}},{"name":"new","inputSchema":{"type":"object"}}]`
			for range 500 {
				r.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			}
			r.text(c.id, "changed")
		}
	case "crash":
		r.call = func(*raw, rawCall) {
			fmt.Fprintln(os.Stderr, "panic: \x1b[31mout of luck, the key is sk-very-secret")
			os.Exit(7)
		}
	case "crash-once":
		r.call = func(r *raw, c rawCall) {
			if _, err := os.Stat("crashed"); err != nil {
				_ = os.WriteFile("crashed", nil, 0o600)
				os.Exit(7)
			}
			r.text(c.id, "done")
		}
	case "error":
		r.call = func(r *raw, c rawCall) {
			r.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"disk\u001b[2J full"}}`, c.id)
		}
	case "asks":
		r.call = askTwice
	case "url":
		r.call = func(r *raw, c rawCall) {
			if _, err := os.Stat("visited"); err != nil {
				r.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://login.example/x","message":"Log in"}]}}}`, c.id)
				return
			}
			r.text(c.id, "visited")
		}
	case "slow":
		r.call = func(r *raw, c rawCall) {
			_ = os.WriteFile("running", nil, 0o600)
			for {
				if _, err := os.Stat("finish"); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			r.text(c.id, "done")
		}
	}
	return r
}

// resultIn returns the result that the arguments of a call have as a text.
func resultIn(arguments json.RawMessage) string {
	var in struct {
		Result string `json:"result"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		panic(err)
	}
	return in.Result
}

// askTwice asks two questions, and writes down how often it began.
func askTwice(r *raw, c rawCall) {
	f, err := os.OpenFile("began", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, c.id)
	_ = f.Close()
	first := r.ask("a"+c.id, `{"mode":"form","message":"Which colour?\u202e","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]}},"required":["colour"]}}`)
	if !strings.Contains(string(first), "accept") {
		r.text(c.id, "first: "+string(first))
		return
	}
	second := r.ask("b"+c.id, `{"mode":"url","message":"Pay","elicitationId":"x`+c.id+`","url":"https://pay.example/`+c.id+`"}`)
	r.text(c.id, string(first)+" "+string(second))
}

func noteToFile(_ *raw, line string) {
	f, err := os.OpenFile("notes", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, line)
	_ = f.Close()
}

func oddTools() string {
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 100) + `{}` + strings.Repeat(`}}`, 100)
	bomb := `{"type":"object","$defs":{`
	for i := range 30 {
		bomb += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	bomb += `"d30":{}},"allOf":[{"$ref":"#/$defs/d0"}]}`
	list := []string{
		`{"name":"good","description":"\u001b[2JIs \u202egood.","inputSchema":{"type":"object","properties":{"n":{"type":"integer","description":"a\u0007b"}}}}`,
		`{"name":"twice","description":"first","inputSchema":{"type":"object"}}`,
		`{"name":"twice","description":"second","inputSchema":{"type":"object"}}`,
		`{"name":"","inputSchema":{"type":"object"}}`,
		`{"name":"with space/and.dots","inputSchema":{"type":"object"}}`,
		`{"name":"` + strings.Repeat("long", 40) + `","inputSchema":{"type":"object"}}`,
		`{"name":"` + strings.Repeat("toolong", 40) + `","inputSchema":{"type":"object"}}`,
		`{"name":"bell\u0007","inputSchema":{"type":"object"}}`,
		`{"name":"GOOD","inputSchema":{"type":"object"}}`,
		`{"name":"none"}`,
		`{"name":"text","inputSchema":"text"}`,
		`{"name":"array","inputSchema":{"type":"array"}}`,
		`{"name":"wrong","inputSchema":{"type":"object","properties":7}}`,
		`{"name":"wrongtype","inputSchema":{"type":"object","properties":{"a":{"type":"strange"}}}}`,
		`{"name":"deep","inputSchema":` + deep + `}`,
		`{"name":"bomb","inputSchema":` + bomb + `}`,
		`{"name":"remote","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://evil.example/schema"}}}}`,
		`{"name":"lost","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/missing"}}}}`,
		`{"name":"loop","inputSchema":{"type":"object","allOf":[{"$ref":"#"}]}}`,
		`{"name":"tree","inputSchema":{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}}`,
		`{"name":"enum","inputSchema":{"type":"object","properties":{"a":{"enum":["\u202e"]}}}}`,
		`{"name":"fat","inputSchema":{"type":"object","description":"` + strings.Repeat("x", 1<<20) + `"}}`,
		`{"name":"fatenum","inputSchema":{"type":"object","properties":{"a":{"const":"` + strings.Repeat("x", 1<<20) + `"}}}}`,
		`{"name":"hiddenloop","inputSchema":{"type":"object","properties":{"default":{"$ref":"#"},"enum":{"allOf":[{"$ref":"#/properties/enum"}]}}}}`,
		`{"name":"anchor","inputSchema":{"type":"object","properties":{"a":{"$ref":"#there"}},"$defs":{"x":{"$anchor":"there","properties":{"b":{"$ref":"#there"}}}}}}`,
		`{"name":"decoy","inputSchema":{"type":"object","default":{"$anchor":"a"},"allOf":[{"$anchor":"a","allOf":[{"$ref":"#a"}]}]}}`,
		`null`,
	}
	return "[" + strings.Join(list, ",") + "]"
}
