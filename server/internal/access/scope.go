package access

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Scope is what a verb needs.
type Scope string

// The scopes. Each of them has Watch in it, and Admin all others.
const (
	Produce Scope = "produce" // enqueue, push, put
	Consume Scope = "consume" // dequeue, pop, peek, reserve, and what ends a lease
	Admin   Scope = "admin"   // all else, as purge, pause and delete
	Watch   Scope = "watch"   // see which queues there are, and figures, but no item
)

var scopes = []Scope{Produce, Consume, Admin, Watch}

// maxPattern is the length of the longest name of a queue.
const maxPattern = 1024

// Permission is a scope and the queues that it is for. In the pattern of their names a * is any text.
type Permission struct {
	Scope   Scope
	Pattern string
}

// ParsePermission reads a permission, as produce:orders.*; without a pattern it is for all queues.
func ParsePermission(s string) (Permission, error) {
	scope, pattern, found := strings.Cut(s, ":")
	if !found {
		pattern = "*"
	}
	p := Permission{Scope(scope), pattern}
	switch {
	case !slices.Contains(scopes, p.Scope):
		return p, fmt.Errorf("scope %.100q: it is produce, consume, admin or watch, and a pattern of queue names behind a colon, as produce:orders.*", s)
	case pattern == "" || len(pattern) > maxPattern || !utf8.ValidString(pattern):
		return p, fmt.Errorf("scope %.100q: a pattern is 1 to %d bytes of UTF-8", s, maxPattern)
	}
	return p, nil
}

func (p Permission) String() string { return string(p.Scope) + ":" + p.Pattern }

// MarshalText writes the permission as ParsePermission reads it.
func (p Permission) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePermission.
func (p *Permission) UnmarshalText(b []byte) (err error) {
	*p, err = ParsePermission(string(b))
	return err
}

// includes tells whether the permission has a scope in it.
func (p Permission) includes(s Scope) bool { return p.Scope == s || p.Scope == Admin || s == Watch }

// matches tells whether a name is as a pattern says.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return pattern == name
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] { // the first place is as good as any later one
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}
