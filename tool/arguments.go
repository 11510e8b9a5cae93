package tool

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/threadmill/threadmill/internal/strictjson"
)

// ArgumentError reports arguments of a call that do not match the tool's parameters.
type ArgumentError struct {
	Tool string

	// Reason names each invalid field, so that the model can correct it.
	Reason string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("Tool parameter validation failed for %s: %s", e.Tool, e.Reason)
}

// Result returns the error as the call's result for the model.
func (e *ArgumentError) Result() Result {
	return Result{Output: "Error: " + e.Error(), IsError: true}
}

// ValidateArguments validates raw arguments against the parameters of d without running anything. For
// invalid arguments it returns an [*ArgumentError]; any other error means that d's parameters are
// not a valid schema.
//
// Empty arguments are the empty object. Duplicate names, and names that differ from declared ones
// only in case, are invalid: approvers must see what the call does.
func (d Definition) ValidateArguments(arguments string) error {
	c, err := checkers.of(d.Name, d.WithDefaults().Parameters)
	if err != nil {
		return err
	}
	_, err = c.check(arguments)
	return err
}

// checkers are the checkers of recently used tools: to resolve a schema costs far more than a check.
var checkers checkerCache

// checkerCache keeps up to maxCheckers checkers, by tool and schema.
type checkerCache struct {
	mu    sync.Mutex
	byKey map[checkerKey]*checker
}

type checkerKey struct {
	tool   string
	schema [sha256.Size]byte
}

// maxCheckers bounds the schemas in memory: servers of tools may declare new ones forever.
const maxCheckers = 256

func (s *checkerCache) of(tool string, parameters json.RawMessage) (*checker, error) {
	key := checkerKey{tool, sha256.Sum256(parameters)}
	s.mu.Lock()
	c := s.byKey[key]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := newChecker(tool, parameters)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil || len(s.byKey) >= maxCheckers {
		s.byKey = map[checkerKey]*checker{}
	}
	s.byKey[key] = c
	return c, nil
}

// checker contains a schema that was resolved once.
type checker struct {
	tool     string
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
}

func newChecker(tool string, parameters json.RawMessage) (*checker, error) {
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(parameters, schema); err != nil {
		return nil, fmt.Errorf("tool %q: parameters are not a JSON Schema: %w", tool, err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("tool %q: parameters: %w", tool, err)
	}
	return &checker{tool: tool, schema: schema, resolved: resolved}, nil
}

// check returns the arguments in a form that every decoder reads the same way: without duplicate
// names, and with whole numbers without fraction or exponent.
func (c *checker) check(arguments string) (json.RawMessage, error) {
	value, err := parse(arguments)
	if err != nil {
		return nil, &ArgumentError{c.tool, "the arguments are not valid JSON: " + err.Error()}
	}
	if strings.TrimSpace(arguments) != "" {
		// Approvers must read what the tool does.
		if _, err := strictjson.Parse(arguments); err != nil {
			return nil, &ArgumentError{c.tool, err.Error()}
		}
	}
	plain, err := normalize(value, "")
	if err != nil {
		return nil, &ArgumentError{c.tool, err.Error()}
	}
	if err := c.resolved.Validate(plain.check); err != nil {
		return nil, &ArgumentError{c.tool, explain(c.schema, plain.check, err)}
	}
	if err := exactNames(c.schema, plain.check, ""); err != nil {
		return nil, &ArgumentError{c.tool, err.Error()}
	}
	raw, err := strictjson.Encode(plain.exact)
	if err != nil {
		return nil, fmt.Errorf("tool %q: arguments: %w", c.tool, err)
	}
	return raw, nil
}

func parse(arguments string) (any, error) {
	if strings.TrimSpace(arguments) == "" {
		return map[string]any{}, nil
	}
	dec := json.NewDecoder(strings.NewReader(arguments))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return nil, errors.New("they end too early")
		}
		return nil, err
	}
	end := dec.InputOffset()
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is more after the first value, which ends at byte %d", end)
	}
	return value, nil
}

// exactNames rejects names that differ from declared ones only in case, if the schema allows
// additional names: Go's decoder would accept Path for path, and rules that check path would miss
// it.
func exactNames(s *jsonschema.Schema, value any, path string) error {
	switch v := value.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			sub, known := s.Properties[field]
			if !known {
				if declared := otherCase(s, field); declared != "" {
					return fmt.Errorf("%s: is not a parameter; did you mean %q?", join(path, field), declared)
				}
				continue
			}
			if err := exactNames(sub, v[field], join(path, field)); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if s.Items == nil {
				break
			}
			if err := exactNames(s.Items, item, index(path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func otherCase(s *jsonschema.Schema, field string) string {
	for _, declared := range slices.Sorted(maps.Keys(s.Properties)) {
		if strings.EqualFold(field, declared) {
			return declared
		}
	}
	return ""
}

// twin is a value in two forms: with Go numbers for the schema library, and with all digits that
// the model wrote.
type twin struct{ check, exact any }

func normalize(value any, path string) (twin, error) {
	switch v := value.(type) {
	case map[string]any:
		check, exact := make(map[string]any, len(v)), make(map[string]any, len(v))
		for key, field := range v {
			t, err := normalize(field, join(path, key))
			if err != nil {
				return twin{}, err
			}
			check[key], exact[key] = t.check, t.exact
		}
		return twin{check, exact}, nil
	case []any:
		check, exact := make([]any, len(v)), make([]any, len(v))
		for i, item := range v {
			t, err := normalize(item, index(path, i))
			if err != nil {
				return twin{}, err
			}
			check[i], exact[i] = t.check, t.exact
		}
		return twin{check, exact}, nil
	case json.Number:
		return number(v, path)
	}
	return twin{value, value}, nil
}

func number(n json.Number, path string) (twin, error) {
	lit := whole(string(n))
	if i, err := strconv.ParseInt(lit, 10, 64); err == nil {
		return twin{i, json.Number(lit)}, nil
	}
	if u, err := strconv.ParseUint(lit, 10, 64); err == nil {
		return twin{u, json.Number(lit)}, nil
	}
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		return twin{}, fmt.Errorf("%s: the number is out of range", name(path))
	}
	return twin{f, json.Number(lit)}, nil
}

// whole writes 3.0 and 3e2, which are integers for a schema, as Go's decoder requires: 3 and 300.
// Other numbers remain unchanged.
func whole(lit string) string {
	i := strings.IndexAny(lit, "eE")
	if i >= 0 {
		const limit = 400 // beyond any float64; a huge exponent would cost huge memory
		if exp, err := strconv.Atoi(lit[i+1:]); err != nil || exp > limit || exp < -limit {
			return lit
		}
	} else if !strings.Contains(lit, ".") {
		return lit
	}
	if r, ok := new(big.Rat).SetString(lit); ok && r.IsInt() {
		return r.Num().String()
	}
	return lit
}
