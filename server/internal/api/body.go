package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Exchange gives a handler the request and the response themselves, where bodies have several forms.
type Exchange struct{ ctx huma.Context }

// Resolve is called by huma before the handler.
func (e *Exchange) Resolve(ctx huma.Context) []error {
	e.ctx = ctx
	return nil
}

// bodyTypes are the content types of bodies that have several forms.
var bodyTypes = []string{typeJSON, typeNDJSON, typeBytes}

// body returns the body of the request and its content type.
func (e *Exchange) body() (r io.Reader, contentType string, err error) {
	request, w := humago.Unwrap(e.ctx)
	if coding := request.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, "", huma.Error415UnsupportedMediaType(fmt.Sprintf("Content-Encoding is %.60q: a body is sent as it is", coding))
	}
	given := request.Header.Get("Content-Type")
	contentType, _, err = mime.ParseMediaType(given)
	limit := e.ctx.Operation().MaxBodyBytes
	switch {
	case err != nil || !slices.Contains(bodyTypes, contentType):
		return nil, "", huma.Error415UnsupportedMediaType(fmt.Sprintf("Content-Type is %.60q: it can be %s", given, strings.Join(bodyTypes, ", ")))
	case contentType == typeNDJSON: // of which each document is limited
		return request.Body, contentType, nil
	case request.ContentLength > limit:
		return nil, "", bodyError(&http.MaxBytesError{Limit: limit})
	}
	return http.MaxBytesReader(w, request.Body, limit), contentType, nil
}

// accepts tells which of the types the client prefers; JSON if it does not say.
func (e *Exchange) accepts() string {
	for _, part := range strings.Split(e.ctx.Header("Accept"), ",") {
		if wanted, _, err := mime.ParseMediaType(part); err == nil && slices.Contains(bodyTypes, wanted) {
			return wanted
		}
	}
	return typeJSON
}

// noBody is an error if the request has a body. To know that, it is read, without which the server
// would not see either that the client has gone.
func (e *Exchange) noBody() error {
	if n, err := e.ctx.BodyReader().Read(make([]byte, 1)); n > 0 || err != nil && err != io.EOF {
		return huma.Error400BadRequest("this request has no body")
	}
	return nil
}

// reply writes a body.
type reply = func(huma.Context)

// replyJSON is a reply of one JSON document.
func replyJSON(v any) reply {
	return replyWith(typeJSON, func(e *json.Encoder) error { return e.Encode(v) })
}

// replyWith is a reply of JSON that write writes. An error of it is that the client has gone.
func replyWith(contentType string, write func(e *json.Encoder) error) reply {
	return func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", contentType)
		e := json.NewEncoder(ctx.BodyWriter())
		e.SetEscapeHTML(false)
		_ = write(e)
	}
}

// replyEach is a reply of what was taken, in one of the three types of content. One document of JSON has a list of a name.
func replyEach[T, D any](format, name string, all []T, document func(T) D, bytes func(T) reply) reply {
	switch {
	case format == typeBytes && len(all) == 0:
		return func(ctx huma.Context) { ctx.SetStatus(http.StatusNoContent) }
	case format == typeBytes:
		return bytes(all[0])
	}
	list := each(all, document)
	if format == typeJSON {
		return replyJSON(map[string][]D{name: list})
	}
	return replyWith(typeNDJSON, func(e *json.Encoder) (err error) {
		for i := 0; i < len(list) && err == nil; i++ {
			err = e.Encode(list[i])
		}
		return err
	})
}

// each returns what f makes of each of all.
func each[T, D any](all []T, f func(T) D) []D {
	made := make([]D, len(all))
	for i, v := range all {
		made[i] = f(v)
	}
	return made
}

// replyBytes is a reply of bytes as they are.
func replyBytes(b []byte, header http.Header) reply {
	return func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", typeBytes)
		for name, values := range header {
			ctx.SetHeader(name, values[0])
		}
		_, _ = ctx.BodyWriter().Write(b)
	}
}

// bodyError returns an error of reading a body as the API tells it.
func bodyError(err error) error {
	if err == nil {
		return nil
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return huma.NewError(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too large: up to %d bytes are allowed", tooLarge.Limit))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return huma.NewError(http.StatusRequestTimeout, "the rest of the body has not come in time")
	}
	if errors.Is(err, errTooLong) {
		return huma.NewError(http.StatusRequestEntityTooLarge, err.Error())
	}
	return huma.Error400BadRequest(err.Error())
}
