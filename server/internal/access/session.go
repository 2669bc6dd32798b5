package access

import (
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"mime"
	"net/http"
	"sync"
	"time"
)

const (
	sessionTime = 12 * time.Hour
	maxSessions = 1000
)

// session is one of a browser. It ends with the token that it was begun with.
type session struct {
	token Hash
	until time.Time
}

// sessions are known by the hash of what the cookie has, so that no lookup depends on the secret itself.
type sessions struct {
	mu  sync.Mutex
	all map[Hash]*session
}

// cookieName is one that, with TLS, no other server of the domain can set.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-conq"
	}
	return "conq"
}

// cookie is one that pages of other sites can't use: browsers do not send it with their requests, whatever the method. What comes from
// them all the same Guard.origins refuses, before it is known whose it is.
func cookie(r *http.Request, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}

// Login begins a session for the holder of a token. The error is a *Problem of status 401 if there is no such token. Where no token
// is needed it does nothing.
func (g *Guard) Login(w http.ResponseWriter, r *http.Request, secret string) error {
	if g.options.Tokens == nil {
		return nil
	}
	token := g.options.Tokens.find(secret)
	if token == nil {
		return NewProblem(http.StatusUnauthorized, "this server has no such token: conq token new makes one")
	}
	id := rand.Text()
	g.sessions.add(sha256.Sum256([]byte(id)), &session{token.Hash, time.Now().Add(sessionTime)})
	http.SetCookie(w, cookie(r, id, int(sessionTime.Seconds())))
	return nil
}

// Logout ends the session of a request.
func (g *Guard) Logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		g.sessions.remove(sha256.Sum256([]byte(c.Value)))
	}
	http.SetCookie(w, cookie(r, "", -1))
}

func (g *Guard) bySession(r *http.Request, id string) (*Caller, *Problem) {
	s := g.sessions.find(sha256.Sum256([]byte(id)))
	var token *Token
	if s != nil {
		token = g.options.Tokens.byHash(s.token)
	}
	if token == nil {
		return nil, NewProblem(http.StatusUnauthorized, "the session has ended: log in again")
	}
	return &Caller{Name: token.Name, scopes: token.Scopes, remote: r.RemoteAddr}, nil
}

func isForm(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return kind == "application/x-www-form-urlencoded"
}

func (s *sessions) add(id Hash, added *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[Hash]*session)
	}
	now := time.Now()
	maps.DeleteFunc(s.all, func(_ Hash, old *session) bool { return !now.Before(old.until) })
	if len(s.all) >= maxSessions {
		s.removeOldest()
	}
	s.all[id] = added
}

func (s *sessions) removeOldest() {
	var oldest Hash
	for id, old := range s.all {
		if first := s.all[oldest]; first == nil || old.until.Before(first.until) {
			oldest = id
		}
	}
	delete(s.all, oldest)
}

func (s *sessions) find(id Hash) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.all[id]
	if found == nil || !time.Now().Before(found.until) {
		return nil
	}
	return found
}

func (s *sessions) remove(id Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}
