package driver

import (
	"context"
	"errors"
	"io"
)

// Receive passes what next returns to take, up to the end of the stream, which is [io.EOF], an error, or
// the end of ctx.
func Receive[T any](ctx context.Context, next func() (T, error), take func(T) error) error {
	for {
		piece, err := next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := take(piece); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
