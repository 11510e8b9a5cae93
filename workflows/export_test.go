package workflows

// input is the input of the thread workflow.
type Input = input
