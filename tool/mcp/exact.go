package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/threadmill/threadmill/internal/strictjson"
)

// exact returns a message in which the structured content of a result is a string with its JSON: the SDK
// would read its numbers as float64, and round ids above 2^53. Messages that this makes too large remain.
func exact(message []byte) []byte {
	const name = "structuredContent"
	if !bytes.Contains(message, []byte(`"`+name+`"`)) {
		return message
	}
	var envelope, result map[string]json.RawMessage
	if json.Unmarshal(message, &envelope) != nil || json.Unmarshal(envelope["result"], &result) != nil {
		return message
	}
	content := result[name]
	if len(content) == 0 || string(content) == "null" {
		return message
	}
	var err error
	if result[name], err = strictjson.Encode(string(content)); err == nil {
		envelope["result"], err = strictjson.Encode(result)
	}
	out, last := strictjson.Encode(envelope)
	if errors.Join(err, last) != nil || len(out) > maxMessage {
		return message
	}
	return out
}

// structured returns structured content with its numbers as they were written, and its canonical JSON. ok is
// false if there is none.
func structured(content any) (value any, raw []byte, ok bool) {
	if text, is := content.(string); is { // by exact
		dec := json.NewDecoder(bytes.NewReader([]byte(text)))
		dec.UseNumber()
		if dec.Decode(&value) != nil {
			value = text
		}
	} else {
		value = content
	}
	raw, err := strictjson.Encode(value)
	return value, raw, err == nil && value != nil
}

// exactBody is a response with [exact] messages: one, or the events of a stream.
type exactBody struct {
	io.ReadCloser
	lines *bufio.Reader // of a stream
	rest  []byte
	err   error
}

func (b *exactBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if b.lines == nil {
			b.rest, b.err = io.ReadAll(b.ReadCloser)
			if b.err == nil {
				b.rest, b.err = exact(bytes.TrimPrefix(b.rest, byteOrderMark)), io.EOF
			}
			continue
		}
		b.rest, b.err = readLine(b.lines, func(int) {})
		if data, is := bytes.CutPrefix(b.rest, []byte("data:")); is && b.err == nil {
			b.rest = append(append([]byte("data: "), bytes.TrimSpace(exact(data))...), '\n')
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
