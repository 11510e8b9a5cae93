package storetest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/threadmill/threadmill/store"
)

// testAround calls each method of a store that takes a context, with a vector or an id where none would ask the database nothing.
func testAround(t *testing.T, s whole) {
	if _, ok := s.(interface {
		With(around store.Around) store.Store
	}); !ok {
		t.Skip("the store has no method With")
	}
	refused := errors.New("refused")
	var names []string
	inner := store.With(s, func(ctx context.Context, name string, do func(context.Context) error) error {
		names = append(names, "inner "+name)
		return do(ctx)
	})
	outer := reflect.ValueOf(store.With(inner, func(_ context.Context, name string, _ func(context.Context) error) error {
		names = append(names, name)
		return refused
	}))
	called := 0
	for i := range outer.NumMethod() {
		name, method := outer.Type().Method(i).Name, outer.Method(i)
		takes := method.Type()
		if takes.NumIn() == 0 || takes.In(0) != reflect.TypeFor[context.Context]() {
			continue
		}
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < takes.NumIn(); i++ {
			switch in := takes.In(i); in {
			case reflect.TypeFor[[]float32]():
				args = append(args, reflect.ValueOf([]float32{1}))
			case reflect.TypeFor[[]string]():
				args = append(args, reflect.ValueOf([]string{"an id"}))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		names = nil
		call := method.Call
		if takes.IsVariadic() {
			call = method.CallSlice
		}
		out := call(args)
		require.Equal(t, []string{callName(name)}, names)
		require.ErrorIs(t, out[len(out)-1].Interface().(error), refused, name)
		called++
	}
	require.Greater(t, called, 70)

	names = nil
	require.NoError(t, inner.Ping(t.Context()))
	require.Equal(t, []string{"inner ping"}, names)
	both := store.With(inner, func(ctx context.Context, name string, do func(context.Context) error) error {
		names = append(names, "outer "+name)
		return do(ctx)
	})
	_, err := both.Append(t.Context(), key, store.Batch{})
	require.NoError(t, err)
	require.Equal(t, []string{"inner ping", "outer append", "inner append"}, names)
	require.NoError(t, s.Ping(t.Context()))
	require.Len(t, names, 3, "the store itself stays as it is")
}

// callName is the name of a method's calls: RecordsByID is records_by_id, and HasAPIKeys has_api_keys.
func callName(method string) string {
	for _, word := range []string{"API", "ID"} {
		method = strings.ReplaceAll(method, word, word[:1]+strings.ToLower(word[1:]))
	}
	var name strings.Builder
	for i, r := range method {
		if i > 0 && r >= 'A' && r <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteString(strings.ToLower(string(r)))
	}
	return name.String()
}
