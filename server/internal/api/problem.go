package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
)

// problems says what errors are over HTTP. The first that matches counts; the server's own come first.
var problems = slices.Concat([]wire.Problem{
	wire.Problems[0],
	{Err: access.ErrForbidden, Status: http.StatusForbidden, Code: wire.Forbidden},
	{Err: answers.ErrOther, Status: http.StatusUnprocessableEntity, Code: "key-used"},
	{Err: queues.ErrNoTask, Status: http.StatusNotFound, Code: "no-task"},
	{Err: queues.ErrTooManyTasks, Status: http.StatusTooManyRequests, Code: "busy"},
	{Err: queues.ErrTooMany, Status: http.StatusServiceUnavailable, Code: "busy"},
}, wire.Problems, []wire.Problem{
	{Err: kv.ErrClosed, Status: http.StatusServiceUnavailable, Code: "stopping"},
	{Err: context.DeadlineExceeded, Status: http.StatusServiceUnavailable, Code: "timeout"},
	{Err: context.Canceled, Status: http.StatusServiceUnavailable, Code: "cancelled"},
})

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
	} else if i := slices.IndexFunc(problems, func(p wire.Problem) bool { return errors.Is(err, p.Err) }); i >= 0 {
		told.Status, told.Type = problems[i].Status, wire.ProblemType+problems[i].Code
	}
	told.Title = http.StatusText(told.Status)
	return told
}
