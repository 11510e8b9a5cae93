package agent_test

import (
	"fmt"

	"github.com/threadmill/threadmill/agent"
)

func ExampleAgent_Validate() {
	clerk := agent.Agent{
		Name: "clerk", Model: "openai/gpt-5.6-luna", Instructions: "You pay back orders.",
		Tools:     []string{"refund", "show_order"},
		Approvals: map[string]agent.Policy{"refund": agent.PolicyAlways},
		Limits:    agent.Limits{MaxSteps: 10},
	}
	fmt.Println(clerk.Validate())
	fmt.Println(clerk.Approval("refund", false), clerk.Approval("show_order", false))
	clerk.Name = "the clerk"
	fmt.Println(clerk.Validate())
	// Output:
	// <nil>
	// always never
	// name: "the clerk" must be 1 to 64 letters, digits, - and _, beginning with a letter or digit
}
