package access

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Options are the choices of a Guard.
type Options struct {
	// Tokens are those that callers may have. Default: none, so that everybody may do everything over the loopback interface,
	// and nobody can come another way.
	Tokens *Tokens

	// Identify tells who sends a request, and what the caller may, in place of Tokens; not ok refuses it. Default: none.
	Identify func(*http.Request) (name string, scopes []string, ok bool)

	// Hosts are names, without a port, by which browsers may reach the server. Default: those of the loopback
	// interface without tokens, else any.
	Hosts []string

	// Public are paths that need no token; one that ends with a slash is for those below it, too.
	Public []string

	// Login is where a browser is sent that has no session. Default: nowhere.
	Login string

	// Refused is told of each request that was not let in. Default: nobody is.
	Refused func(r *http.Request, status int)
}

// Guard lets requests through. It is safe for concurrent use.
type Guard struct {
	options  Options
	origins  *http.CrossOriginProtection
	sessions sessions
}

// NewGuard returns a guard.
func NewGuard(o Options) *Guard {
	return &Guard{options: o, origins: http.NewCrossOriginProtection()}
}

// Handler refuses requests that may not come in, and hands others on with their caller; see From. Each refusal is a Problem.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, refused := g.admit(r)
		switch {
		case refused == nil:
			next.ServeHTTP(w, r.WithContext(With(r.Context(), caller)))
			return
		case refused.Status == http.StatusUnauthorized && g.options.Login != "" && isPage(r):
			Redirect(w, r, g.options.Login+"?next="+url.QueryEscape(again(r)))
		default:
			refused.Write(w)
		}
		if g.options.Refused != nil {
			g.options.Refused(r, refused.Status)
		}
	})
}

// Redirect sends a browser to a path of this server. The address is relative, so that the server can be mounted under any path.
func Redirect(w http.ResponseWriter, r *http.Request, to string) {
	up := strings.Repeat("../", max(0, strings.Count(r.URL.Path, "/")-1))
	w.Header().Set("Location", "./"+up+strings.TrimPrefix(strings.TrimPrefix(to, "."), "/"))
	w.WriteHeader(http.StatusSeeOther)
}

// isPage tells whether a browser wants to show what it asks for.
func isPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodPost && isForm(r)) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// again is the page that asks for what a request has asked for: a form's address has that in its query, or is none of a page.
func again(r *http.Request) string {
	if r.Method == http.MethodPost && r.URL.RawQuery == "" {
		return "/"
	}
	return r.URL.RequestURI()
}

func (g *Guard) admit(r *http.Request) (*Caller, *Problem) {
	if p := g.checkHost(r); p != nil {
		return nil, p
	}
	if err := g.origins.Check(r); err != nil {
		return nil, NewProblem(http.StatusForbidden, "the request comes from a page of another site (%s): only pages of this server may send it", quoted(r.Header.Get("Origin")))
	}
	caller, p := g.identify(r)
	if p != nil && g.isPublic(r.URL.Path) {
		return &Caller{Name: nobody.Name, remote: r.RemoteAddr}, nil
	}
	return caller, p
}

func (g *Guard) isPublic(path string) bool {
	return slices.ContainsFunc(g.options.Public, func(p string) bool {
		return p == path || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p) && !strings.Contains(path, "/..")
	})
}

// checkHost refuses requests that a browser sends to another server's name, which was made to lead here.
func (g *Guard) checkHost(r *http.Request) *Problem {
	host := hostOf(r.Host)
	allowed := g.options.Hosts
	switch {
	case r.Host == "": // of HTTP/1.0, as health checks send it, and no browser
		return nil
	case slices.ContainsFunc(allowed, func(h string) bool { return strings.EqualFold(h, host) }):
		return nil
	case !g.isOpen() && len(allowed) == 0:
		return nil
	case g.isOpen() && isLoopbackName(host):
		return nil
	case g.isOpen():
		allowed = append([]string{"localhost", "127.0.0.1", "[::1]"}, allowed...)
	}
	return NewProblem(http.StatusMisdirectedRequest, "this server is not %s: it is %s", quoted(host), strings.Join(allowed, ", "))
}

// isOpen tells whether everybody may do everything, over the loopback interface.
func (g *Guard) isOpen() bool { return g.options.Tokens == nil && g.options.Identify == nil }

// hostOf returns a host without its port.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.Trim(hostport, "[]")
}

func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// identify returns the caller of a request.
func (g *Guard) identify(r *http.Request) (*Caller, *Problem) {
	if g.options.Identify != nil {
		return g.identified(r)
	}
	if g.options.Tokens == nil {
		if !cameOverLoopback(r.Context()) {
			return nil, NewProblem(http.StatusForbidden, "a server without tokens answers only over the loopback interface")
		}
		return &Caller{Name: Everyone.Name, scopes: Everyone.scopes, remote: r.RemoteAddr}, nil
	}
	secret, given := bearer(r)
	if cookie, err := r.Cookie(cookieName(r)); err == nil && !given {
		return g.bySession(r, cookie.Value)
	}
	token := g.options.Tokens.find(secret)
	if token == nil {
		return nil, NewProblem(http.StatusUnauthorized, "a token of this server is needed, as Authorization: Bearer conq_...")
	}
	return &Caller{Name: token.Name, scopes: token.Scopes, remote: r.RemoteAddr}, nil
}

// identified returns the caller that the program knows.
func (g *Guard) identified(r *http.Request) (*Caller, *Problem) {
	name, scopes, ok := g.options.Identify(r)
	if !ok {
		return nil, NewProblem(http.StatusForbidden, "this program does not know who you are")
	}
	c := &Caller{Name: name, remote: r.RemoteAddr}
	for _, s := range scopes {
		p, err := ParsePermission(s)
		if err != nil {
			return nil, NewProblem(http.StatusInternalServerError, "the program that serves this is wrong: %v", err)
		}
		c.scopes = append(c.scopes, p)
	}
	return c, nil
}

func bearer(r *http.Request) (secret string, given bool) {
	header := r.Header.Get("Authorization")
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", header != ""
	}
	return strings.TrimSpace(secret), true
}

// cameOverLoopback tells whether the connection of a request ends at the loopback interface, or there is none.
func cameOverLoopback(ctx context.Context) bool {
	addr, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || isLoopback(addr)
}

func isLoopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
