package jobs

import (
	"errors"
	"fmt"

	"github.com/conq-go/conq/queue"
)

var (
	// ErrLeaseLost means that the lease is over or was taken away, or its job is gone: nothing was changed.
	ErrLeaseLost = errors.New("lease lost")

	// ErrDuplicate means that a job of the same Unique is there already, or was within its UniqueFor.
	ErrDuplicate = errors.New("duplicate of a unique job")

	// ErrNotFound means that there is no job of that id.
	ErrNotFound = errors.New("no such job")

	// ErrState means that the verb does not apply to a job in its state.
	ErrState = errors.New("not possible in the job's state")

	// ErrChanged means that the settings are no longer those that a change of them began with.
	ErrChanged = errors.New("the settings were changed meanwhile")
)

func corrupt(key []byte, format string, args ...any) error {
	return fmt.Errorf("%w: key %.200x: %s", queue.ErrCorrupt, key, fmt.Sprintf(format, args...))
}

func isCorrupt(err error) bool { return errors.Is(err, queue.ErrCorrupt) }

// nonCorrupt is err unless it is about what is stored.
func nonCorrupt(err error) error {
	if isCorrupt(err) {
		return nil
	}
	return err
}
