package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/kv"
)

// ErrUnauthorized means that the server wants a token, or another one; ErrForbidden, that the token has not the scope.
var (
	ErrUnauthorized = errors.New("client: the server does not know the token")
	ErrForbidden    = errors.New("client: not allowed")
)

// Error is a refusal of the server. errors.Is matches it with the error that the same call returns on a store.
type Error struct {
	Status int    // of HTTP
	Type   string // of the problem, as urn:conq:no-queue
	Detail string

	is    error
	after time.Duration
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return e.Detail
}

func (e *Error) Unwrap() error { return e.is }

// errorOf returns what a type of problem means, or nil.
func errorOf(problem string) error {
	code, _ := strings.CutPrefix(problem, wire.ProblemType)
	if code == wire.Forbidden {
		return ErrForbidden
	}
	if i := slices.IndexFunc(wire.Problems, func(p wire.Problem) bool { return p.Code == code }); i >= 0 {
		return wire.Problems[i].Err
	}
	return nil
}

var statuses = map[int]error{
	http.StatusUnauthorized: ErrUnauthorized, http.StatusForbidden: ErrForbidden, http.StatusRequestEntityTooLarge: kv.ErrTooLarge,
	http.StatusGatewayTimeout: context.DeadlineExceeded, http.StatusBadGateway: kv.ErrUnavailable, http.StatusServiceUnavailable: kv.ErrUnavailable, http.StatusUnprocessableEntity: kv.ErrInvalid, http.StatusBadRequest: kv.ErrInvalid,
}

// readError reads what an answer that is no success says.
func readError(answer *http.Response) *Error {
	const most = 64 << 10
	var problem struct {
		Type, Detail string
		Errors       []struct{ Message, Location string }
	}
	_ = json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&problem) // a proxy may say anything
	e := &Error{Status: answer.StatusCode, Type: problem.Type, Detail: problem.Detail, after: -1}
	for _, wrong := range problem.Errors { // the detail says only that there are some
		e.Detail += fmt.Sprintf(": %s: %s", wrong.Location, wrong.Message)
	}
	if e.is = errorOf(e.Type); e.is == nil {
		e.is = statuses[e.Status]
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.after = 0
		if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds >= 0 && seconds < 60 {
			e.after = time.Duration(seconds) * time.Second
		}
	}
	if errors.Is(e.is, kv.ErrCommitUnknown) {
		e.after = 0
	}
	return e
}

// mayBeDone tells whether the server may have carried the request out all the same.
func (e *Error) mayBeDone() bool {
	return e.Status >= 500 && e.Status != http.StatusServiceUnavailable && e.Status != http.StatusInsufficientStorage || errors.Is(e.is, kv.ErrCommitUnknown)
}
