package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
)

// Client makes a tool of a definition whose calls a connected client runs.
func Client(d Definition) Tool {
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

// Digest identifies what a tool is to those who approve its calls: its name, what it says
// that it does, and its arguments.
func (d Definition) Digest() string {
	// Text and valid JSON have a JSON form.
	raw, _ := json.Marshal([]any{d.Name, d.Description, d.WithDefaults().Parameters, d.PathArguments, d.Client})
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
