package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/conq-go/conq/internal/testkit"
)

// newTokens returns tokens in a file, and their secrets.
func newTokens(t *testing.T, scopes map[string][]Permission) (*Tokens, map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	secrets := make(map[string]string)
	for name, s := range scopes {
		secrets[name] = addToken(t, path, name, s...)
	}
	tokens, err := LoadTokens(path)
	testkit.NoError(t, err)
	return tokens, secrets
}

func addToken(t *testing.T, path, name string, scopes ...Permission) string {
	t.Helper()
	token, secret, err := NewToken(name, scopes)
	testkit.NoError(t, err)
	testkit.NoError(t, AddToFile(path, token))
	return secret
}

var shop = map[string][]Permission{
	"shop":  {{Produce, "orders.*"}, {Consume, "invoices"}},
	"ops":   {{Admin, "*"}},
	"graph": {{Watch, "*"}},
}

// request is one to a server that tells who the caller is.
type request struct {
	method, target, host, secret, cookie string
	header                               map[string]string
	form                                 url.Values
	local                                net.Addr
}

// fails checks that an error says something.
func fails(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", says)
	}
	testkit.WantError(t, err, err, says...)
}

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7711}

func (q request) send(t *testing.T, g *Guard) *httptest.ResponseRecorder {
	t.Helper()
	if q.method == "" {
		q.method = http.MethodGet
	}
	if q.target == "" {
		q.target = "/v1/queues"
	}
	r := httptest.NewRequestWithContext(t.Context(), q.method, "http://localhost:7711"+q.target, strings.NewReader(q.form.Encode()))
	if q.host != "" {
		r.Host = q.host
	}
	if q.form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if q.secret != "" {
		r.Header.Set("Authorization", "Bearer "+q.secret)
	}
	if q.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "conq", Value: q.cookie})
	}
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	if q.local == nil {
		q.local = loopback
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, q.local))
	w := httptest.NewRecorder()
	g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := From(r.Context())
		w.Header().Set("Caller", c.Name)
	})).ServeHTTP(w, r)
	return w
}

// refused checks that a request gets a problem that says something, and returns its text.
func (q request) refused(t *testing.T, g *Guard, status int, says ...string) {
	t.Helper()
	w := q.send(t, g)
	var p Problem
	testkit.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	testkit.Equal(t, "status", w.Code, status)
	testkit.Equal(t, "status in the problem", p.Status, status)
	testkit.Equal(t, "type", w.Header().Get("Content-Type"), "application/problem+json")
	testkit.Equal(t, "caller", w.Header().Get("Caller"), "")
	for _, text := range says {
		if !strings.Contains(p.Detail, text) {
			t.Errorf("problem is %q, without %q", p.Detail, text)
		}
	}
	if len(q.secret) > 10 && strings.Contains(w.Body.String(), q.secret) {
		t.Errorf("problem has the secret in it: %s", w.Body)
	}
}

func (q request) admitted(t *testing.T, g *Guard, caller string) *httptest.ResponseRecorder {
	t.Helper()
	w := q.send(t, g)
	testkit.Equal(t, "status ("+w.Body.String()+")", w.Code, http.StatusOK)
	testkit.Equal(t, "caller", w.Header().Get("Caller"), caller)
	return w
}

func TestMay(t *testing.T) {
	caller := &Caller{Name: "shop", scopes: shop["shop"]}
	for _, c := range []struct {
		scope Scope
		queue string
		may   bool
	}{
		{Produce, "orders.new", true},
		{Produce, "orders.", true},
		{Produce, "orders", false},
		{Produce, "xorders.new", false},
		{Consume, "orders.new", false},
		{Admin, "orders.new", false},
		{Watch, "orders.new", true},
		{Watch, "other", false},
		{Consume, "invoices", true},
		{Consume, "Invoices", false},
		{Produce, "", false},
		{Watch, "", false},
	} {
		err := caller.May(c.scope, c.queue)
		testkit.Equal(t, string(c.scope)+" on "+c.queue, err == nil, c.may)
		if !c.may {
			testkit.WantError(t, err, ErrForbidden, `"shop"`, string(c.scope), "it has: produce:orders.*, consume:invoices")
		}
	}
	for _, s := range scopes {
		testkit.NoError(t, Everyone.May(s, "any"))
		testkit.NoError(t, Everyone.May(s, ""))
		testkit.WantError(t, Check(t.Context(), s, "any"), ErrForbidden, "nothing")
		testkit.NoError(t, Check(With(t.Context(), Everyone), s, "any"))
	}
	testkit.Equal(t, "a long name is cut", len(caller.May(Produce, strings.Repeat("é", 10_000)).Error()) < 500, true)
}

// matches is as an obviously correct one.
func TestPatterns(t *testing.T) {
	var plain func(pattern, name string) bool
	plain = func(pattern, name string) bool {
		switch {
		case pattern == "":
			return name == ""
		case pattern[0] == '*':
			return plain(pattern[1:], name) || name != "" && plain(pattern, name[1:])
		}
		return name != "" && name[0] == pattern[0] && plain(pattern[1:], name[1:])
	}
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab]{0,10}`).Draw(t, "name")
		testkit.Equal(t, pattern+" matches "+name, matches(pattern, name), plain(pattern, name))
	})
	// One that would take for ever if each * tried all places.
	testkit.Equal(t, "hostile pattern", matches(strings.Repeat("*a", 500)+"*b", strings.Repeat("a", 1000)), false)
}

func TestTokens(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	g := NewGuard(Options{Tokens: tokens})
	for name, secret := range secrets {
		request{secret: secret}.admitted(t, g, name)
		request{secret: secret, method: http.MethodPost, host: "queues.example:443"}.admitted(t, g, name)
		request{header: map[string]string{"Authorization": "bearer   " + secret + " "}}.admitted(t, g, name)
		request{secret: secret, cookie: "none"}.admitted(t, g, name)
	}
	const needed = "a token of this server is needed, as Authorization: Bearer conq_"
	other, otherSecret, err := NewToken("other", shop["ops"])
	testkit.NoError(t, err)
	secret := secrets["ops"]
	for _, bad := range []string{
		"", otherSecret, secret[:len(secret)-1], secret + "A", strings.ToUpper(secret), strings.TrimPrefix(secret, tokenPrefix), "conq_", "*",
		strings.Repeat("A", 20_000),
	} {
		request{secret: bad}.refused(t, g, http.StatusUnauthorized, needed)
	}
	hash, err := other.Hash.MarshalText()
	testkit.NoError(t, err)
	request{secret: string(hash)}.refused(t, g, http.StatusUnauthorized)
	request{header: map[string]string{"Authorization": "Basic " + secret}}.refused(t, g, http.StatusUnauthorized)
	testkit.Equal(t, "challenge", request{}.send(t, g).Header().Get("WWW-Authenticate"), `Bearer realm="conq"`)
}

// A token that was put into the file by hand, of a password, is none.
func TestNoPasswords(t *testing.T) {
	for _, password := range []string{"", "password", "conq_"} {
		token := Token{"hand", sha256.Sum256([]byte(password)), shop["ops"]}
		path := filepath.Join(t.TempDir(), "tokens.json")
		testkit.NoError(t, AddToFile(path, token))
		tokens, err := LoadTokens(path)
		testkit.NoError(t, err)
		request{secret: password}.refused(t, NewGuard(Options{Tokens: tokens}), http.StatusUnauthorized)
		if tokens.find(password) != nil {
			t.Errorf("%q is a token", password)
		}
	}
}

func TestReload(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	g := NewGuard(Options{Tokens: tokens})
	late := addToken(t, tokens.path, "late", Permission{Watch, "*"})
	request{secret: late}.refused(t, g, http.StatusUnauthorized)
	testkit.NoError(t, tokens.Reload())
	request{secret: late}.admitted(t, g, "late")

	testkit.NoError(t, os.WriteFile(tokens.path, []byte(`{"tokens": [{"name": "x"`), 0o600))
	fails(t, tokens.Reload(), tokens.path)
	request{secret: late}.admitted(t, g, "late")
	request{secret: secrets["ops"]}.admitted(t, g, "ops")

	testkit.NoError(t, os.Remove(tokens.path))
	testkit.WantError(t, tokens.Reload(), os.ErrNotExist)
	fresh := addToken(t, tokens.path, "ops", Permission{Admin, "*"})
	testkit.NoError(t, tokens.Reload())
	request{secret: secrets["ops"]}.refused(t, g, http.StatusUnauthorized)
	request{secret: fresh}.admitted(t, g, "ops")
}

func TestTokenFile(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	entry := func(name, hash, scopes string) string {
		return `{"name": "` + name + `", "sha256": "` + hash + `", "scopes": [` + scopes + `]}`
	}
	for _, c := range []struct{ text, says string }{
		{``, "EOF"},
		{`null`, "0 tokens"},
		{`{"tokens": []}`, "1 to 1000"},
		{`[]`, "cannot unmarshal array"},
		{`{"token": []}`, `unknown field "token"`},
		{`{"tokens": [` + entry("a", hash, `"produce"`) + `]} {}`, "behind the JSON document"},
		{`{"tokens": [` + entry("", hash, `"produce"`) + `]}`, "token name"},
		{`{"tokens": [` + entry(`a\u0007`, hash, `"produce"`) + `]}`, "printable"},
		{`{"tokens": [` + entry(strings.Repeat("a", 101), hash, `"produce"`) + `]}`, "1 to 100 bytes"},
		{`{"tokens": [` + entry("a", hash[1:], `"produce"`) + `]}`, "64 hexadecimal digits"},
		{`{"tokens": [` + entry("a", hash+"ab", `"produce"`) + `]}`, "64 hexadecimal digits"},
		{`{"tokens": [` + entry("a", "xy"+hash[2:], `"produce"`) + `]}`, "64 hexadecimal digits"},
		{`{"tokens": [{"name": "a", "scopes": ["admin"]}]}`, "no sha256"},
		{`{"tokens": [` + entry("a", hash, ``) + `]}`, "no scopes"},
		{`{"tokens": [` + entry("a", hash, `null`) + `]}`, "empty scope"},
		{`{"tokens": [` + entry("a", hash, `"root"`) + `]}`, "produce, consume, admin or watch"},
		{`{"tokens": [` + entry("a", hash, `"produce:"`) + `]}`, "1 to 1024 bytes"},
		{`{"tokens": [` + entry("a", hash, `"admin"`) + `,` + entry("a", strings.Repeat("cd", 32), `"admin"`) + `]}`, "twice"},
		{`{"tokens": [` + entry("a", hash, `"admin"`) + `,` + entry("b", hash, `"admin"`) + `]}`, "another one"},
		{`{"tokens": [` + strings.Repeat(`{`, 20_000), "invalid character"},
		{"{\"tokens\": [\"\xff\"]}", "UTF-8"},
		{`{"tokens": [` + entry(`a\ud800`, hash, `"admin"`) + `]}`, "surrogate"},
	} {
		path := filepath.Join(t.TempDir(), "tokens.json")
		testkit.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		_, err := LoadTokens(path)
		fails(t, err, c.says, path)
	}
	path := filepath.Join(t.TempDir(), "large")
	testkit.NoError(t, os.WriteFile(path, bytes.Repeat([]byte(" "), maxFile+1), 0o600))
	_, err := LoadTokens(path)
	fails(t, err, "4194304 bytes")
}

func TestAddToFile(t *testing.T) {
	tokens, _ := newTokens(t, shop)
	info, err := os.Stat(tokens.path)
	testkit.NoError(t, err)
	testkit.Equal(t, "mode", info.Mode().Perm(), 0o600)
	before, err := os.ReadFile(tokens.path)
	testkit.NoError(t, err)
	again, _, err := NewToken("ops", shop["ops"])
	testkit.NoError(t, err)
	fails(t, AddToFile(tokens.path, again), `there is a token "ops"`)
	after, err := os.ReadFile(tokens.path)
	testkit.NoError(t, err)
	testkit.Equal(t, "file", string(after), string(before))

	_, _, err = NewToken("line\nend", shop["ops"])
	fails(t, err, "printable")
	_, _, err = NewToken("idle", nil)
	fails(t, err, "no scopes")
	testkit.WantError(t, AddToFile(filepath.Join(t.TempDir(), "none", "tokens.json"), again), os.ErrNotExist)
	left, err := filepath.Glob(tokens.path + ".*")
	testkit.NoError(t, err)
	testkit.Equal(t, "files left", len(left), 0)
}

// Without tokens only what comes over the loopback interface, and to its name, is answered.
func TestLoopback(t *testing.T) {
	g := NewGuard(Options{Hosts: []string{"queues.test"}})
	for _, host := range []string{"localhost", "LOCALHOST:7711", "127.0.0.1:7711", "127.9.9.9", "[::1]:7711", "[::1]", "queues.test:7711"} {
		request{host: host}.admitted(t, g, "everyone")
	}
	// A page of a site whose name was made to lead to this machine.
	for _, host := range []string{"rebound.example:7711", "localhost.example", "127.0.0.1.example", "0.0.0.0:7711", "192.168.1.2", "[::]", "localhost@evil", ":7711", "a b"} {
		request{host: host}.refused(t, g, http.StatusMisdirectedRequest, "localhost, 127.0.0.1, [::1], queues.test")
	}
	for _, addr := range []net.Addr{&net.TCPAddr{IP: net.IPv4(192, 168, 1, 2)}, &net.TCPAddr{IP: net.IPv6unspecified}, &net.UDPAddr{}} {
		request{local: addr}.refused(t, g, http.StatusForbidden, "only over the loopback interface")
	}
	request{local: &net.UnixAddr{Name: "/run/conq", Net: "unix"}}.admitted(t, g, "everyone")

	tokens, _ := newTokens(t, shop)
	named := NewGuard(Options{Tokens: tokens, Hosts: []string{"queues.test"}})
	request{host: "other.test"}.refused(t, named, http.StatusMisdirectedRequest, "it is queues.test")
}

// A page of another site can't change anything, nor with a session, whatever it sends.
func TestOrigin(t *testing.T) {
	g := NewGuard(Options{})
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodPut} {
		request{method: method}.admitted(t, g, "everyone") // no browser
		for _, headers := range []map[string]string{
			{"Origin": "https://evil.example"},
			{"Origin": "http://localhost:8080"},
			{"Origin": "null"},
			{"Sec-Fetch-Site": "cross-site"},
			{"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:7711"},
		} {
			request{method: method, header: headers}.refused(t, g, http.StatusForbidden, "another site")
		}
		request{method: method, header: map[string]string{"Origin": "http://localhost:7711"}}.admitted(t, g, "everyone")
		request{method: method, header: map[string]string{"Sec-Fetch-Site": "same-origin"}}.admitted(t, g, "everyone")
	}
}

func TestPublic(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	g := NewGuard(Options{Tokens: tokens, Public: []string{"/healthz", "/static/"}, Login: "/login"})
	for _, target := range []string{"/healthz", "/healthz?x", "/static/app.css"} {
		request{target: target}.admitted(t, g, "nobody")
	}
	request{target: "/healthz", secret: secrets["ops"]}.admitted(t, g, "ops")
	for _, target := range []string{"/healthz/", "/Healthz", "/healthzz", "/static", "/static/../v1/queues", "/static/%2e%2e/v1/queues", "/v1/queues"} {
		request{target: target}.refused(t, g, http.StatusUnauthorized)
	}
	page := request{target: "/queues?sort=depth&x=//evil", header: map[string]string{"Accept": "text/html"}}
	w := page.send(t, g)
	testkit.Equal(t, "status", w.Code, http.StatusSeeOther)
	testkit.Equal(t, "location", w.Header().Get("Location"), "./login?next=%2Fqueues%3Fsort%3Ddepth%26x%3D%2F%2Fevil")
	page.method = http.MethodPost
	page.refused(t, g, http.StatusUnauthorized)
}

func TestAudit(t *testing.T) {
	tokens, secrets := newTokens(t, shop)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	h := NewGuard(Options{Tokens: tokens}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		Audit(r.Context(), logger, "purge", slog.String("queue", "orders.new"))
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Header.Set("Authorization", "Bearer "+secrets["ops"])
	h.ServeHTTP(httptest.NewRecorder(), r)
	for _, want := range []string{`msg="operator action"`, "action=purge", "caller=ops", "remote=192.0.2.1:1234", "queue=orders.new"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log is %q, without %q", log.String(), want)
		}
	}
	for name, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the secret of %s is in the log", name)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	public := &net.TCPAddr{IP: net.IPv6unspecified, Port: 7711}
	testkit.NoError(t, CheckAddress(loopback, false, false, false))
	testkit.NoError(t, CheckAddress(&net.UnixAddr{}, false, false, false))
	testkit.NoError(t, CheckAddress(public, true, true, false))
	testkit.NoError(t, CheckAddress(public, true, false, true))
	fails(t, CheckAddress(public, false, true, true), "tokens are needed", "[::]:7711")
	fails(t, CheckAddress(public, true, false, false), "--insecure")
}

// FuzzTokens reads anything as a file of tokens, without a panic; what is read can be written, and read again.
func FuzzTokens(f *testing.F) {
	token, secret, err := NewToken("shop", shop["shop"])
	testkit.NoError(f, err)
	b, err := json.Marshal(file{[]Token{token}})
	testkit.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"tokens": [{"name": "a", "sha256": "` + strings.Repeat("0", 63) + `1", "scopes": ["admin:*"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		tokens, err := parse(b)
		if err != nil {
			return
		}
		written, err := json.Marshal(file{tokens})
		testkit.NoError(t, err)
		again, err := parse(written)
		testkit.NoError(t, err)
		if diff := cmp.Diff(tokens, again); diff != "" {
			t.Error(diff)
		}
		all := &Tokens{}
		all.current.Store(&tokens)
		for _, secret := range []string{"", string(b), secret} {
			if found := all.find(secret); found != nil && found.Hash != token.Hash {
				t.Errorf("%q is token %q", secret, found.Name)
			}
		}
	})
}

// BenchmarkFind shows that a secret costs the same whether it is one, is nearly one, or is missing.
func BenchmarkFind(b *testing.B) {
	var tokens []Token
	var last string
	for i := range 100 {
		token, secret, err := NewToken(strconv.Itoa(i), shop["ops"])
		testkit.NoError(b, err)
		tokens, last = append(tokens, token), secret
	}
	all := &Tokens{}
	all.current.Store(&tokens)
	for _, c := range []struct{ name, secret string }{{"right", last}, {"wrong", last[:len(last)-1] + "-"}, {"missing", ""}, {"malformed", "x"}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				all.find(c.secret)
			}
		})
	}
}
