package driver

import "strconv"

// Effort is a reasoning effort: a word of the provider, or a number of tokens.
type Effort struct {
	Word string

	// Budget is a number of tokens. Of a word, it is what the model's budgets say, or 0.
	Budget int
	Number bool
}

// ReadEffort reads a reasoning effort. budgets are the budgets of models that know no words.
func ReadEffort(effort string, budgets map[string]int) Effort {
	if n, err := strconv.ParseInt(effort, 10, 32); err == nil {
		return Effort{Budget: int(n), Number: true}
	}
	return Effort{Word: effort, Budget: budgets[effort]}
}
