package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// ClientSide returns a tool whose calls a connected client runs.
func ClientSide(d Definition) Tool {
	d.Client = true
	return clientSide{d}
}

type clientSide struct{ definition Definition }

// Definition implements [Tool].
func (c clientSide) Definition() Definition { return c.definition }

// Call implements [Tool].
func (clientSide) Call(context.Context, Call) (Result, error) {
	return Result{}, errors.New("this tool runs in a connected client only")
}

// Digest identifies what approvers know about a tool: its name, its description and its parameters.
func (d Definition) Digest() string {
	// Text and valid JSON can always be marshalled.
	raw, _ := json.Marshal([]any{d.Name, d.Description, d.WithDefaults().Parameters, d.PathArguments, d.Client})
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
