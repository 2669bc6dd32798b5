package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/conq-go/conq/internal/jsontext"
)

// A secret is tokenPrefix, by which scanners find one that was published, and 256 random bits in base64url.
const (
	tokenPrefix = "conq_"
	tokenLength = len(tokenPrefix) + 43
)

// Bounds of a file of tokens.
const (
	maxTokens    = 1000
	maxFile      = 4 << 20
	maxTokenName = 100
)

// Token is an entry of a file of tokens.
type Token struct {
	Name   string       `json:"name"`
	Hash   Hash         `json:"sha256"`
	Scopes []Permission `json:"scopes"`
}

// Hash is the SHA-256 of a secret.
type Hash [sha256.Size]byte

// MarshalText writes the hash in hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (h *Hash) UnmarshalText(b []byte) error {
	if n, err := hex.Decode(h[:], b[:min(len(b), 2*len(h))]); err != nil || n != len(h) || len(b) != 2*len(h) {
		return fmt.Errorf("%.80q is not a SHA-256: that has %d hexadecimal digits", b, 2*len(h))
	}
	return nil
}

// NewToken draws a secret. What it returns beside the token is not kept anywhere.
func NewToken(name string, scopes []Permission) (t Token, secret string, err error) {
	random := make([]byte, 32)
	rand.Read(random) // ends the process if it fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	t = Token{name, sha256.Sum256([]byte(secret)), scopes}
	return t, secret, t.check()
}

func (t *Token) check() error {
	printable := strings.IndexFunc(t.Name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
	switch {
	case t.Name == "" || len(t.Name) > maxTokenName || !printable || !utf8.ValidString(t.Name):
		return fmt.Errorf("token name %.40q: it is 1 to %d bytes of printable text", t.Name, maxTokenName)
	case t.Hash == Hash{}:
		return fmt.Errorf("token %q has no sha256", t.Name)
	case len(t.Scopes) == 0:
		return fmt.Errorf("token %q has no scopes: there are produce, consume, admin and watch", t.Name)
	}
	for _, s := range t.Scopes {
		if s.Scope == "" {
			return fmt.Errorf("token %q has an empty scope", t.Name)
		}
	}
	return nil
}

// file is the form of a file of tokens.
type file struct {
	Tokens []Token `json:"tokens"`
}

// parse reads a file of tokens. What it does not know is an error: a scope that is misspelt must not get lost.
func parse(b []byte) ([]Token, error) {
	if err := jsontext.Check(b); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var f file
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("there is something behind the JSON document")
	}
	if len(f.Tokens) == 0 || len(f.Tokens) > maxTokens {
		return nil, fmt.Errorf("it has %d tokens: there can be 1 to %d", len(f.Tokens), maxTokens)
	}
	names, hashes := make(map[string]bool), make(map[Hash]bool)
	for _, t := range f.Tokens {
		if err := t.check(); err != nil {
			return nil, err
		}
		if names[t.Name] || hashes[t.Hash] {
			return nil, fmt.Errorf("token %q is there twice, or has the sha256 of another one", t.Name)
		}
		names[t.Name], hashes[t.Hash] = true, true
	}
	return f.Tokens, nil
}

func readTokens(path string) ([]Token, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("it has over %d bytes", maxFile)
	}
	var tokens []Token
	if err == nil {
		tokens, err = parse(b)
	}
	if err != nil {
		return nil, fmt.Errorf("tokens in %q: %w", path, err)
	}
	return tokens, nil
}

// AddToFile adds a token to a file, which is made if there is none. The file is written anew, so that a server
// that reads it meanwhile gets the old or the new one.
func AddToFile(path string, t Token) error {
	tokens, err := readTokens(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, there := range tokens {
		if there.Name == t.Name {
			return fmt.Errorf("there is a token %q in %q already", t.Name, path)
		}
	}
	b, err := json.MarshalIndent(file{append(tokens, t)}, "", "  ")
	if err != nil {
		return err
	}
	return replace(path, append(b, '\n'))
}

// replace writes a file that only its owner can read.
func replace(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Tokens are those of a file, as last read. They are safe for concurrent use.
type Tokens struct {
	path    string
	current atomic.Pointer[[]Token]
}

// LoadTokens reads a file of tokens.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	return t, t.Reload()
}

// Reload reads the file again. After an error the tokens are those from before.
func (t *Tokens) Reload() error {
	tokens, err := readTokens(t.path)
	if err != nil {
		return err
	}
	t.current.Store(&tokens)
	return nil
}

// find returns the token of a secret, or nil. It takes the same time for each secret, and for none.
func (t *Tokens) find(secret string) *Token {
	formed := len(secret) == tokenLength && strings.HasPrefix(secret, tokenPrefix)
	if !formed { // nobody can have a token that was not drawn, whatever the file says
		secret = tokenPrefix + strings.Repeat("-", tokenLength-len(tokenPrefix))
	}
	found := t.byHash(sha256.Sum256([]byte(secret)))
	if !formed {
		return nil
	}
	return found
}

func (t *Tokens) byHash(h Hash) *Token {
	tokens := *t.current.Load()
	found := -1
	for i := range tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(h[:], tokens[i].Hash[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return &tokens[found]
}
