package modelcontext

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/event"
	"github.com/threadmill/threadmill/llm"
)

// TestSame: messages are the same if and only if their JSON forms are, whatever field differs.
func TestSame(t *testing.T) {
	one := llm.Message{
		Role: "tool", Content: "c", Parts: []string{"c"}, Name: "n", ToolCalls: []event.ToolCall{{ID: "a"}}, ToolCallID: "b", IsError: true,
		Shared: true, Opaque: &event.Opaque{},
	}
	require.True(t, same(&one, &one))
	for i := range reflect.TypeFor[llm.Message]().NumField() {
		other, field := one, reflect.TypeFor[llm.Message]().Field(i)
		value := reflect.ValueOf(&other).Elem().Field(i)
		require.False(t, value.IsZero(), "the test sets %s", field.Name)
		value.SetZero()
		require.Equal(t, string(form(one)) == string(form(other)), same(&one, &other), field.Name)
	}
}
