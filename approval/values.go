package approval

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// values converts arguments for comparison in CEL.
func values(arguments map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(arguments))
	for name, argument := range arguments {
		v, err := value(argument)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

func value(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		return values(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = value(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case json.Number:
		return number(string(v))
	}
	return v, nil
}

// number returns an integer for a whole number in any notation, so that 3.0 and 3e2 equal the 3 and
// 300 that the tool receives.
func number(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is out of range", shown(text))
	}
	if f != math.Trunc(f) || math.Abs(f) > math.MaxUint64 {
		return f, nil
	}
	// A double would lose the last digits of a large number.
	if exact, ok := new(big.Rat).SetString(text); ok && exact.IsInt() {
		switch n := exact.Num(); {
		case n.IsInt64():
			return n.Int64(), nil
		case n.IsUint64():
			return n.Uint64(), nil
		}
	}
	return f, nil
}
