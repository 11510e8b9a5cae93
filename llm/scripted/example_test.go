package scripted_test

import (
	"context"
	"fmt"

	"github.com/threadmill/threadmill/llm"
	"github.com/threadmill/threadmill/llm/scripted"
)

func Example() {
	model := scripted.New(
		scripted.Say("Which order is it?").For("clerk"),
		scripted.Say("It left this morning.").For("depot").On("A-1"),
	)
	for _, asked := range []llm.Request{
		{Model: "depot", Messages: []llm.Message{{Role: "user", Content: "Where is A-1?"}}},
		{Model: "depot", Messages: []llm.Message{{Role: "user", Content: "And A-2?"}}},
	} {
		reply, err := model.Generate(context.Background(), asked, nil)
		fmt.Println(reply.Content, err)
	}
	// Output:
	// It left this morning. <nil>
	//  scripted: no reply fits: model "depot" was asked by user "And A-2?"; the script expects: for "clerk" say "Which order is it?"
}
