package knowledge

// Verdict is what becomes of a mention that resembles a known entity.
type Verdict string

// The verdicts.
const (
	// Same: the mention is of the known entity.
	Same Verdict = "same"

	// Unsure: a model decides.
	Unsure Verdict = "unsure"

	// Different: the mention is of a new entity.
	Different Verdict = "different"
)

// The least cosine similarities of [Same] and [Unsure].
const (
	SameFrom   = 0.99
	UnsureFrom = 0.95
)

// Judge compares a mention with the most similar entity of the same namespace and type.
func Judge(similarity float64) Verdict {
	switch {
	case similarity >= SameFrom:
		return Same
	case similarity >= UnsureFrom:
		return Unsure
	}
	return Different
}
