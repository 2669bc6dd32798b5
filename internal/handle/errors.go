package handle

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

var (
	errUnopened = fmt.Errorf("conq: queue was not opened: use OpenQueue or OpenPriorityQueue: %w", kv.ErrInvalid)
	errNoTx     = fmt.Errorf("conq: In was given no transaction: %w", kv.ErrInvalid)

	// errNobody ends a transaction of which no caller is left: all have given up, or were left
	// to the next batch. So none gets it.
	errNobody = errors.New("conq: nobody is there to be served")
)

// timeoutError says what took too long where the caller has given no context. It matches
// context.DeadlineExceeded.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout tells, as net.Error does, that this is one.
func (timeoutError) Timeout() bool { return true }

// isEmpty tells whether err is that there is nothing, and not what a codec has said of an item.
func isEmpty(err error) bool {
	return errors.Is(err, types.ErrEmpty) && !errors.Is(err, types.ErrDecode)
}
