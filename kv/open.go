package kv

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// OpenFunc opens the store that url names. url is what the user gave, scheme
// included. ctx bounds the opening, and not the life of the store.
type OpenFunc func(ctx context.Context, url string) (DB, error)

var engines struct {
	sync.RWMutex
	open map[string]OpenFunc
}

// Register makes an engine known to [Open] under a URL scheme, as database/sql
// drivers do: an engine calls it in an init function, and a program links the
// engines that it imports. A second engine of the same scheme replaces the
// first.
func Register(scheme string, open OpenFunc) {
	engines.Lock()
	defer engines.Unlock()
	if engines.open == nil {
		engines.open = make(map[string]OpenFunc)
	}
	engines.open[scheme] = open
}

// Open opens a store by a URL ("memory:", "etcd://host:2379") with the engine
// that registered its scheme. If there is none, the error wraps ErrInvalid.
func Open(ctx context.Context, url string) (DB, error) {
	if ctx == nil {
		return nil, fmt.Errorf("%w: context is nil", ErrInvalid)
	}
	scheme, _, found := strings.Cut(url, ":")
	engines.RLock()
	open := engines.open[scheme]
	engines.RUnlock()
	if open == nil {
		if found {
			scheme += ":" // and no more, as the rest may have a password
		}
		return nil, fmt.Errorf("%w: no engine for %.200q: this program has %s; import the engine's package to add it",
			ErrInvalid, scheme, strings.Join(Schemes(), ", "))
	}
	db, err := open(ctx, url)
	if err != nil {
		return nil, err // and not the nil pointer of an engine's own type, which is no nil DB
	}
	return db, nil
}

// Schemes returns the registered schemes, sorted.
func Schemes() []string {
	engines.RLock()
	defer engines.RUnlock()
	names := make([]string, 0, len(engines.open))
	for name := range engines.open {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
