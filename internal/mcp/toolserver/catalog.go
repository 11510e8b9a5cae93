package toolserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/threadmill/threadmill/store"
	"github.com/threadmill/threadmill/tool"
)

// Catalog keeps the last state of each server for all processes. It is an mcp.Catalog. Servers of all
// namespaces have the namespace "".
type Catalog struct{ documents store.Documents }

// NewCatalog returns a catalog in a store.
func NewCatalog(documents store.Documents) *Catalog { return &Catalog{documents} }

// Load returns the states of a namespace. A state that cannot be read is left out: its server reports
// another one.
func (c *Catalog) Load(ctx context.Context, namespace string) ([]tool.ServerState, error) {
	all, err := c.documents.Documents(ctx, namespace, kindState, "", store.MaxLimit)
	if err != nil {
		return nil, err
	}
	var out []tool.ServerState
	for _, d := range all {
		var s tool.ServerState
		if json.Unmarshal(d.Content, &s) == nil && s.Name == d.Name {
			out = append(out, s)
		}
	}
	return out, nil
}

// Save replaces a state, by its namespace and name.
func (c *Catalog) Save(ctx context.Context, state tool.ServerState) error {
	raw, err := encode(state)
	for err == nil && len(raw) > store.MaxDocument && len(state.Tools) > 0 {
		if len(state.Problems) == 0 || state.Problems[len(state.Problems)-1].Subject != tooLarge.Subject {
			state.Problems = append(state.Problems[:len(state.Problems):len(state.Problems)], tooLarge)
		}
		state.Tools = state.Tools[:len(state.Tools)/2]
		raw, err = encode(state)
	}
	if err != nil {
		return fmt.Errorf("the state of MCP server %q: %w", state.Name, err)
	}
	_, err = c.documents.PutDocument(ctx, state.Namespace, store.Document{Kind: kindState, Name: state.Name, Content: raw, By: state.Worker}, -1)
	return err
}

// tooLarge is the problem of a state of which only some tools are stored.
var tooLarge = tool.ServerProblem{Subject: "tools/list", Reason: "the tools are too large to be shared by processes: only the first are"}

func encode(state tool.ServerState) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // a third of the size, of what is full of angle brackets
	err := enc.Encode(state)
	return bytes.TrimSpace(out.Bytes()), err
}

// Delete removes the state of a server, if there is one.
func (c *Catalog) Delete(ctx context.Context, namespace, name string) error {
	for _, kind := range []string{kindState, kindRestart} {
		if err := c.documents.DeleteDocument(ctx, namespace, kind, name, -1); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// RequestRestart asks the process that runs a server to connect to it again.
func (c *Catalog) RequestRestart(ctx context.Context, namespace, name string) error {
	_, err := c.documents.PutDocument(ctx, namespace, store.Document{Kind: kindRestart, Name: name, Content: json.RawMessage(`{}`)}, -1)
	return err
}

// Restart identifies the last request to restart a server. It is empty if there was none.
func (c *Catalog) Restart(ctx context.Context, namespace, name string) (id string, err error) {
	d, err := c.documents.Document(ctx, namespace, kindRestart, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	return strconv.Itoa(d.Version), nil
}
