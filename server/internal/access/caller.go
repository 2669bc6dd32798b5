package access

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
)

// Caller is the sender of a request.
type Caller struct {
	// Name is that of its token, or "everyone".
	Name string

	scopes []Permission
	remote string // address
}

type contextKey struct{}

// nobody may do nothing.
var nobody = &Caller{Name: "nobody"}

// Everyone is the caller of each request where no tokens are needed.
var Everyone = &Caller{Name: "everyone", scopes: []Permission{{Admin, "*"}}}

// ErrForbidden means that the caller is known, and may not do this.
var ErrForbidden = errors.New("not allowed")

// From returns the caller of the request with that context. A context of no request, or of one that did not come through
// Guard.Handler, has a caller that may do nothing.
func From(ctx context.Context) *Caller {
	if c, ok := ctx.Value(contextKey{}).(*Caller); ok {
		return c
	}
	return nobody
}

// With returns a context of a request of that caller.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// Check is From(ctx).May.
func Check(ctx context.Context, s Scope, queue string) error { return From(ctx).May(s, queue) }

// May returns nil if the caller may do that to a queue, or else a *Problem that is an ErrForbidden and says what it may do. No name
// is the server itself, and all its queues, those to come too.
func (c *Caller) May(s Scope, queue string) error {
	for _, p := range c.scopes {
		everywhere := strings.Trim(p.Pattern, "*") == ""
		if p.includes(s) && (everywhere || queue != "" && matches(p.Pattern, queue)) {
			return nil
		}
	}
	on := "all queues"
	if queue != "" {
		on = "queue " + quoted(queue)
	}
	return NewProblem(http.StatusForbidden, "%q has not the scope %s on %s; it has: %s", c.Name, s, on, cmp.Or(c.Rights(), "nothing"))
}

// Needs returns a handler of those who have a scope on the server itself.
func Needs(s Scope, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, refused := errors.AsType[*Problem](Check(r.Context(), s, "")); refused {
			p.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Rights returns what the caller may do, as text.
func (c *Caller) Rights() string {
	var all []string
	for _, p := range c.scopes {
		all = append(all, p.String())
	}
	return strings.Join(all, ", ")
}

// quoted is a name of a queue in an answer.
func quoted(name string) string {
	const most = 200
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	return `"` + name + `"`
}

// Audit logs that the caller has done something that an operator does. Attributes must not have payloads, keys or secrets.
func Audit(ctx context.Context, log *slog.Logger, action string, attributes ...slog.Attr) {
	c := From(ctx)
	all := append([]slog.Attr{slog.String("action", action), slog.String("caller", c.Name), slog.String("remote", c.remote)}, attributes...)
	log.LogAttrs(ctx, slog.LevelInfo, "operator action", all...)
}
