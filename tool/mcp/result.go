package mcp

import (
	"encoding/base64"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/threadmill/threadmill/internal/excerpt"
	"github.com/threadmill/threadmill/internal/strictjson"
	"github.com/threadmill/threadmill/internal/term"
	"github.com/threadmill/threadmill/tool"
)

// maxParts is the maximum number of parts of a result.
const maxParts = 1000

// rendering turns the parts of a result into text for the model and details for people.
type rendering struct {
	limit int // of the text, and of the data in the details
	text  []string
	plain bool // whether a part is text

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
	if res.StructuredContent != nil {
		if raw, err := strictjson.Encode(res.StructuredContent); err == nil {
			if !out.plain {
				out.say(string(raw))
			}
			if len(raw) <= r.server.MaxResult {
				details["structuredContent"] = res.StructuredContent
			}
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

// String returns the text, cut to the limit.
func (o *rendering) String() string { return excerpt.Text(strings.Join(o.text, "\n"), o.limit) }

// say adds a text.
func (o *rendering) say(text string) { o.text = append(o.text, term.Escape(text)) }

func (o *rendering) content(part sdk.Content) {
	switch c := part.(type) {
	case *sdk.TextContent:
		o.plain = true
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
		o.plain = true
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
