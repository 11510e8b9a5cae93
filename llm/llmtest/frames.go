package llmtest

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
)

// framed is a protocol whose stream has Amazon's frames instead of server-sent events.
type framed interface{ framed() }

func (q *bedrockRequest) framed() {}

// The sizes of the parts of a frame.
const (
	preludeSize  = 12
	checksumSize = 4
)

// prelude returns the beginning of a frame of a size.
func prelude(size, headers int) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(size))
	out = binary.BigEndian.AppendUint32(out, uint32(headers))
	return binary.BigEndian.AppendUint32(out, checksum(out)) // of what precedes
}

func checksum(data []byte) uint32 { return crc32.ChecksumIEEE(data) }

// frame returns an event as a frame: a chunk of the reply, or an exception.
func frame(name, data string) []byte {
	kind, about, value, payload := "event", ":event-type", "chunk", []byte(data)
	switch {
	case name == "error":
		kind, about, value = "exception", ":exception-type", "internalServerException"
	case json.Valid(payload):
		payload, _ = json.Marshal(map[string][]byte{"bytes": payload}) // bytes can always be marshalled
	}
	headers := append(header(":message-type", kind), header(about, value)...)
	out := prelude(preludeSize+len(headers)+len(payload)+checksumSize, len(headers))
	out = append(append(out, headers...), payload...)
	return binary.BigEndian.AppendUint32(out, checksum(out))
}

// header returns a header of a frame: its name, and a text with its length.
func header(name, value string) []byte {
	const text = 7
	out := append([]byte{byte(len(name))}, name...)
	out = append(out, text, 0, byte(len(value)))
	return append(out, value...)
}
