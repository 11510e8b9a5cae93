package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/internal/text/excerpt"
	"github.com/threadmill/threadmill/internal/text/term"
	"github.com/threadmill/threadmill/tool"
)

// maxParts is the maximum number of parts of a result.
const maxParts = 1000

// rendering turns the parts of a result into text for the model and details for people.
type rendering struct {
	limit int // of the text, and of the data in the details
	text  []string

	data  int // bytes of data in the details
	parts []map[string]any
}

// result returns the result of a call.
func (r *toolCall) result(res *sdk.CallToolResult) tool.Result {
	out := &rendering{limit: r.server.MaxResult}
	for i, part := range res.Content {
		if i == maxParts {
			out.say(fmt.Sprintf("[… cut: %d more parts …]", len(res.Content)-maxParts))
			break
		}
		out.content(part)
	}
	details := map[string]any{}
	if value, raw, ok := structured(res.StructuredContent); ok {
		// Beside other text, the redaction of the whole would not see that this is JSON.
		raw = r.connection.cfg.Redact.JSON(raw)
		if !says(res.Content, value) {
			out.say(string(raw))
		}
		// Later readers of the details want numbers that a float64 can hold.
		if len(raw) <= r.server.MaxResult && json.Unmarshal(raw, new(any)) == nil {
			details["structuredContent"] = json.RawMessage(raw)
		}
	}
	if len(out.parts) > 0 {
		details["content"] = out.parts
	}
	text := out.String()
	switch {
	case text == "" && res.IsError:
		text = "Error: the tool failed, and did not say why"
	case text == "":
		text = "The tool returned nothing."
	}
	result := tool.Result{Output: text, IsError: res.IsError}
	if len(details) > 0 {
		result.Details = details
	}
	return result
}

// says reports whether the texts of a result have its structured content already: as JSON, or as many servers
// write results that are no object, in the only field of one such as "result" or "content": as text, or each item of a list in a part.
func says(parts []sdk.Content, value any) bool {
	if saysPlainly(parts, value) {
		return true
	}
	object, _ := value.(map[string]any)
	if len(object) != 1 {
		return false
	}
	var inner any
	for _, inner = range object { // its only field
	}
	list, _ := inner.([]any)
	if len(list) == 0 || len(list) != len(parts) {
		return saysPlainly(parts, inner)
	}
	for i, item := range list {
		if !saysPlainly(parts[i:i+1], item) {
			return saysPlainly(parts, inner)
		}
	}
	return true
}

func saysPlainly(parts []sdk.Content, value any) bool {
	want, err := strictjson.Encode(value)
	return err == nil && slices.ContainsFunc(parts, func(part sdk.Content) bool {
		text, is := part.(*sdk.TextContent)
		if !is || text.Text == value {
			return is
		}
		said, err := strictjson.Parse(text.Text)
		if err != nil {
			return false
		}
		have, err := strictjson.Encode(said)
		return err == nil && bytes.Equal(have, want)
	})
}

// String returns the text, cut to the limit.
func (o *rendering) String() string { return excerpt.Text(strings.Join(o.text, "\n"), o.limit) }

// say adds a text.
func (o *rendering) say(text string) { o.text = append(o.text, term.Escape(text)) }

func (o *rendering) content(part sdk.Content) {
	switch c := part.(type) {
	case *sdk.TextContent:
		o.say(c.Text)
	case *sdk.ImageContent:
		o.binary("image", "", c.MIMEType, c.Data)
	case *sdk.AudioContent:
		o.binary("audio", "", c.MIMEType, c.Data)
	case *sdk.ResourceLink:
		o.say(link(c))
	case *sdk.EmbeddedResource:
		o.resource(c.Resource)
	default:
		o.say("[a part of a type that is not supported]")
	}
}

// resource adds a part of a resource.
func (o *rendering) resource(c *sdk.ResourceContents) {
	switch {
	case c == nil:
		o.say("[an empty resource]")
	case len(c.Blob) > 0:
		o.binary("data", c.URI, c.MIMEType, c.Blob)
	default:
		o.say(fmt.Sprintf("[resource %s%s]\n%s", line(c.URI, maxURI), typed(c.MIMEType), c.Text))
	}
}

// binary describes data. People get the data itself, up to the limit.
func (o *rendering) binary(kind, uri, mime string, data []byte) {
	where := ""
	if uri != "" {
		where = " " + line(uri, maxURI)
	}
	o.say(fmt.Sprintf("[%s%s%s, %s; shown to people only]", kind, where, typed(mime), bytesText(len(data))))
	part := map[string]any{"type": kind, "mimeType": line(mime, maxTitle), "bytes": len(data)}
	if uri != "" {
		part["uri"] = line(uri, maxURI)
	}
	if encoded := base64.StdEncoding.EncodedLen(len(data)); o.data+encoded <= o.limit {
		o.data += encoded
		part["data"] = base64.StdEncoding.EncodeToString(data)
	}
	o.parts = append(o.parts, part)
}

func typed(mime string) string {
	if mime == "" {
		return ""
	}
	return " (" + line(mime, maxTitle) + ")"
}

func link(c *sdk.ResourceLink) string {
	name := c.Title
	if name == "" {
		name = c.Name
	}
	text := fmt.Sprintf("[link to a resource: %s %s%s", line(name, maxTitle), line(c.URI, maxURI), typed(c.MIMEType))
	if c.Size != nil && *c.Size >= 0 {
		text += ", " + bytesText(int(*c.Size))
	}
	text += "]"
	if c.Description != "" {
		text += " " + clean(c.Description, maxDescription)
	}
	return text
}
