package wire

import (
	"net/http"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// ProblemType is how the type of a problem begins. Forbidden is the code of a scope that a token has not.
const (
	ProblemType = "urn:conq:"
	Forbidden   = "forbidden"
)

// Problem is what an error is over HTTP.
type Problem struct {
	Err    error
	Status int
	Code   string // what is behind ProblemType, by which clients know the error
}

// Problems are the errors that clients return as the library does. Of an error that matches several the first one counts.
var Problems = []Problem{
	{kv.ErrCommitUnknown, http.StatusInternalServerError, "commit-unknown"}, // whatever else it is
	{queue.ErrNoQueue, http.StatusNotFound, "no-queue"},
	{work.ErrNotFound, http.StatusNotFound, "no-job"},
	{queue.ErrName, http.StatusUnprocessableEntity, "name"},
	{queue.ErrKind, http.StatusConflict, "kind"},
	{queue.ErrDeleting, http.StatusConflict, "deleting"},
	{work.ErrDuplicate, http.StatusConflict, "duplicate"},
	{work.ErrState, http.StatusConflict, "state"},
	{work.ErrChanged, http.StatusConflict, "changed"},
	{work.ErrLeaseLost, http.StatusConflict, "lease-lost"},
	{kv.ErrTooLarge, http.StatusRequestEntityTooLarge, "too-large"},
	{kv.ErrFailed, http.StatusServiceUnavailable, "failed"},
	{kv.ErrFull, http.StatusInsufficientStorage, "full"},              // which a store that has failed may say, too
	{kv.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"}, // nothing was done: it can be sent again
	{kv.ErrInvalid, http.StatusUnprocessableEntity, "invalid"},
	{queue.ErrDecode, http.StatusInternalServerError, "decode"},
	{queue.ErrFormat, http.StatusInternalServerError, "format"},
	{queue.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
	{kv.ErrReadOnly, http.StatusInternalServerError, "read-only"},
}
