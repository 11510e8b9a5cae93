package tool_test

import (
	"context"
	"fmt"

	"github.com/threadmill/threadmill/tool"
)

func ExampleFunc() {
	type forecast struct {
		City string `json:"city" jsonschema:"name of the city"`
		Days int    `json:"days,omitempty" jsonschema:"how many days, default 1"`
	}
	weather := tool.MustFunc("weather", "Tells the weather of a city.",
		func(_ context.Context, call tool.Call, in forecast) (string, error) {
			call.Progress("asking the station in " + in.City)
			return "sunny in " + in.City, nil
		}, tool.Idempotent())

	for _, arguments := range []string{`{"city":"Oslo"}`, `{"town":"Oslo"}`} {
		result, err := weather.Call(context.Background(), tool.Call{Arguments: arguments})
		fmt.Println(result.Output, err)
	}
	// Output:
	// sunny in Oslo <nil>
	// Error: Tool parameter validation failed for weather: city: is required; town: is not a parameter (known: city, days) <nil>
}
