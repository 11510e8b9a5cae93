package document

import (
	"context"
	"time"
)

// Parse reads a document in the process of the test.
func Parse(f File) (Text, error) {
	cache, err := compiled()
	if err != nil {
		return Text{}, err
	}
	return parse(job{Name: f.Name, MediaType: f.MediaType, Limits: Limits{}.withDefaults(), Memory: maxMemory, Cache: cache}, f.Content)
}

// ReadWithin reads a document, however long its text, in a process with these limits.
func ReadWithin(ctx context.Context, f File, memory int, cpu time.Duration) (Text, error) {
	cache, err := compiled()
	if err != nil {
		return Text{}, err
	}
	return job{Name: f.Name, MediaType: f.MediaType, Limits: Limits{Text: 1 << 30}.withDefaults(), Memory: memory, CPU: cpu, Cache: cache}.run(ctx, f.Content)
}
