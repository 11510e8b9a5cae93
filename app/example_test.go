package app_test

import (
	"context"

	"github.com/threadmill/threadmill"
	"github.com/threadmill/threadmill/app"
	"github.com/threadmill/threadmill/tool"
)

// A program that is command worker with one more tool.
func ExampleMain() {
	postage := tool.MustFunc("postage", "Tells what a parcel costs.", func(context.Context, tool.Call, struct{}) (string, error) {
		return "4.90 euros", nil
	})
	app.Main(app.Config{
		Name: "shop", Description: "Answer customers",
		Configure: func(cfg *threadmill.Config) error {
			cfg.Tools = append(cfg.Tools, postage)
			return nil
		},
	})
}
