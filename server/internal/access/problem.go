package access

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Problem is a refusal, as RFC 9457 has it. It is an error that huma's handlers can return.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	again bool // a page would have what is missing if it were loaded again
}

func problem(status int, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

func (p *Problem) Error() string { return p.Detail }

// Is has a refusal of what a caller asks for match ErrForbidden.
func (p *Problem) Is(target error) bool {
	return target == ErrForbidden && p.Status == http.StatusForbidden
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns that of the document.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Write answers a request with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", p.ContentType(""))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="conq"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone needs no answer
}
