package access

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Problem is a refusal, as RFC 9457 has it. It is an error that huma's handlers can return.
type Problem struct {
	huma.ErrorModel
}

// NewProblem returns a problem of an HTTP status.
func NewProblem(status int, format string, args ...any) *Problem {
	return &Problem{ErrorModel: huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}}
}

// Is has a refusal of what a caller asks for match ErrForbidden.
func (p *Problem) Is(target error) bool {
	return target == ErrForbidden && p.Status == http.StatusForbidden
}

// Write answers a request with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="conq"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone needs no answer
}
