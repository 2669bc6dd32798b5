package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/once"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
	"github.com/danielgtaylor/huma/v2"
)

// statuses says what errors of the library are over HTTP. The first that matches counts.
var statuses = []struct {
	err    error
	status int
}{
	{kv.ErrCommitUnknown, http.StatusInternalServerError}, // whatever else it is
	{access.ErrForbidden, http.StatusForbidden},
	{once.ErrKey, http.StatusUnprocessableEntity},
	{once.ErrOther, http.StatusUnprocessableEntity},
	{conq.ErrNoQueue, http.StatusNotFound},
	{work.ErrNotFound, http.StatusNotFound},
	{conq.ErrName, http.StatusUnprocessableEntity},
	{work.ErrInvalid, http.StatusUnprocessableEntity},
	{conq.ErrKind, http.StatusConflict},
	{work.ErrDuplicate, http.StatusConflict},
	{work.ErrState, http.StatusConflict},
	{work.ErrLeaseLost, http.StatusConflict},
	{kv.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{queues.ErrTooMany, http.StatusServiceUnavailable},
	{kv.ErrClosed, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, http.StatusServiceUnavailable},
	{context.Canceled, http.StatusServiceUnavailable},
	{kv.ErrInvalid, http.StatusUnprocessableEntity},
}

// problem returns an error as the API tells it.
func problem(err error) huma.StatusError {
	if told, ok := err.(huma.StatusError); ok {
		return told
	}
	status := http.StatusInternalServerError
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			status = s.status
			break
		}
	}
	return &huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: err.Error()}
}
