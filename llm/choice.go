package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ToolChoice says whether a model calls tools: one of the constants, or the result of [ChooseTool].
type ToolChoice string

const (
	// ToolsAuto lets the model decide. It is the default.
	ToolsAuto ToolChoice = ""

	// ToolsNone forbids calls, without hiding the tools.
	ToolsNone ToolChoice = "none"

	// ToolsRequired demands at least one call.
	ToolsRequired ToolChoice = "required"
)

const oneTool = "tool:"

// ChooseTool returns the choice of one tool, which the model must call.
func ChooseTool(name string) ToolChoice { return ToolChoice(oneTool + name) }

// Tool returns the name of the tool that the model must call, or "".
func (c ToolChoice) Tool() string {
	name, ok := strings.CutPrefix(string(c), oneTool)
	if !ok {
		return ""
	}
	return name
}

// ResponseFormat demands that the text of a reply is JSON with a schema.
//
// Check the text anyway: a reply that reaches its limit of tokens is cut, and servers that nearly speak
// OpenAI's protocol may ignore fields that they do not know.
type ResponseFormat struct {
	// A name for the format, which some providers show the model.
	//
	// Empty = a name of the driver.
	Name string `json:"name,omitempty"`

	// The JSON Schema of the text.
	//
	// Its type is object. Providers know a part of JSON Schema, and reject other schemas. All know
	// objects that require each property and set additionalProperties to false.
	Schema json.RawMessage `json:"schema"`
}

// Check reports a ToolChoice or ResponseFormat that no provider can follow. Providers call it first.
func (r Request) Check() error {
	name := r.ToolChoice.Tool()
	switch {
	case r.ToolChoice == ToolsRequired && len(r.Tools) == 0:
		return fmt.Errorf("ToolChoice is %q, and the request has no tools", r.ToolChoice)
	case name != "" && !slices.ContainsFunc(r.Tools, func(t Tool) bool { return t.Name == name }):
		return fmt.Errorf("ToolChoice is %q, and the request has no such tool", r.ToolChoice)
	case name == "" && r.ToolChoice != ToolsAuto && r.ToolChoice != ToolsNone && r.ToolChoice != ToolsRequired:
		return fmt.Errorf("ToolChoice is %q, must be none, required or tool: with a name", r.ToolChoice)
	}
	if f := r.ResponseFormat; f != nil {
		var schema struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(f.Schema, &schema) != nil || schema.Type != "object" {
			return errors.New("ResponseFormat.Schema must be a JSON Schema of the type object")
		}
	}
	return nil
}
