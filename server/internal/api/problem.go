package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/conq-go/conq/server/internal/bulk"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// status is what an error is over HTTP.
type status struct {
	err    error
	status int
	code   string // the end of the problem's type, by which clients know it
}

// statuses says what errors of the library are over HTTP. The first that matches counts.
var statuses = []status{
	{kv.ErrCommitUnknown, http.StatusInternalServerError, "commit-unknown"}, // whatever else it is
	{access.ErrForbidden, http.StatusForbidden, "forbidden"},
	{answers.ErrOther, http.StatusUnprocessableEntity, "key-used"},
	{conq.ErrNoQueue, http.StatusNotFound, "no-queue"},
	{work.ErrNotFound, http.StatusNotFound, "no-job"},
	{bulk.ErrNotFound, http.StatusNotFound, "no-task"},
	{bulk.ErrTooMany, http.StatusTooManyRequests, "busy"},
	{conq.ErrName, http.StatusUnprocessableEntity, "name"},
	{work.ErrInvalid, http.StatusUnprocessableEntity, "job-invalid"},
	{conq.ErrKind, http.StatusConflict, "kind"},
	{conq.ErrDeleting, http.StatusConflict, "deleting"},
	{work.ErrDuplicate, http.StatusConflict, "duplicate"},
	{work.ErrState, http.StatusConflict, "state"},
	{work.ErrChanged, http.StatusConflict, "changed"},
	{work.ErrLeaseLost, http.StatusConflict, "lease-lost"},
	{kv.ErrTooLarge, http.StatusRequestEntityTooLarge, "too-large"},
	{queues.ErrTooMany, http.StatusServiceUnavailable, "busy"},
	{kv.ErrFailed, http.StatusServiceUnavailable, "failed"},
	{kv.ErrFull, http.StatusInsufficientStorage, "full"},              // which a store that has failed may say, too
	{kv.ErrUnavailable, http.StatusServiceUnavailable, "unavailable"}, // nothing was done: it can be sent again
	{kv.ErrClosed, http.StatusServiceUnavailable, "stopping"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "timeout"},
	{context.Canceled, http.StatusServiceUnavailable, "cancelled"},
	{kv.ErrInvalid, http.StatusUnprocessableEntity, "invalid"},
	{conq.ErrDecode, http.StatusInternalServerError, "decode"},
	{conq.ErrFormat, http.StatusInternalServerError, "format"},
	{conq.ErrCorrupt, http.StatusInternalServerError, "corrupt"},
	{work.ErrCorrupt, http.StatusInternalServerError, "job-corrupt"},
	{kv.ErrReadOnly, http.StatusInternalServerError, "read-only"},
}

// problem returns an error as the API tells it.
func problem(err error) error {
	if _, ok := errors.AsType[huma.StatusError](err); ok { // perhaps with headers
		return err
	}
	told := modelOf(err)
	return &told
}

func modelOf(err error) huma.ErrorModel {
	told := huma.ErrorModel{Status: http.StatusInternalServerError, Detail: err.Error()}
	if refused, ok := errors.AsType[huma.StatusError](err); ok {
		told.Status = refused.GetStatus()
	} else if i := slices.IndexFunc(statuses, func(s status) bool { return errors.Is(err, s.err) }); i >= 0 {
		told.Status, told.Type = statuses[i].status, "urn:conq:"+statuses[i].code
	}
	told.Title = http.StatusText(told.Status)
	return told
}
