package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serve is an MCP server over stdio for the files of a folder. In practice it is a program of others, such as
// npx -y @modelcontextprotocol/server-filesystem <folder>.
func serve(ctx context.Context, folder string) error {
	files, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer files.Close()
	type file struct {
		Path string `json:"path"`
		Text string `json:"text,omitempty"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1"}, nil)
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(s, &mcp.Tool{Name: "read_file", Description: "Reads a file.", Annotations: reads},
		func(_ context.Context, _ *mcp.CallToolRequest, in file) (*mcp.CallToolResult, any, error) {
			raw, err := files.ReadFile(in.Path)
			return text(string(raw)), nil, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "list_files", Description: "Lists the files.", Annotations: reads},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			entries, err := os.ReadDir(folder)
			names := make([]string, len(entries))
			for i, e := range entries {
				names[i] = e.Name()
			}
			return text(strings.Join(names, ", ")), nil, err
		})
	mcp.AddTool(s, &mcp.Tool{Name: "write_file", Description: "Writes a file."},
		func(_ context.Context, _ *mcp.CallToolRequest, in file) (*mcp.CallToolResult, any, error) {
			return text(fmt.Sprintf("wrote %d bytes", len(in.Text))), nil, files.WriteFile(in.Path, []byte(in.Text), 0o600)
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
