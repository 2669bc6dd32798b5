package conq

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/conq-go/conq/kv"
)

// Open opens a store: a directory, or the URL of an engine.
//
//	data                            the embedded store in directory data
//	embedded:data?durability=memory the same, with options; see package kv/embedded
//	memory:                         a new store in memory
//	foundationdb:/etc/fdb.cluster   a cluster, if the program imports kv/foundationdb
//	etcd://host:2379,host:2379      a cluster, if the program imports kv/etcd
//
// What has no scheme is a directory, and so is what begins with one letter and a
// colon, as paths on Windows do. A directory whose name begins as a URL does is opened
// as ./NAME, and one with a question mark in it by embedded.Open.
//
// The embedded store is made if there is none, and belongs to one process at a
// time. The error for a URL that means nothing wraps kv.ErrInvalid. ctx bounds the opening,
// and not the life of the store. Close the store when it is no longer needed.
func Open(ctx context.Context, url string) (kv.DB, error) {
	if url == "" {
		return nil, fmt.Errorf("%w: conq: open needs a directory or a URL", kv.ErrInvalid)
	}
	scheme, isURL := cutScheme(url)
	if !isURL {
		return kv.Open(ctx, "embedded:"+url)
	}
	if !slices.Contains(kv.Schemes(), scheme) {
		return nil, unknownScheme(scheme)
	}
	return kv.Open(ctx, scheme+url[len(scheme):])
}

// cutScheme returns the scheme of url in lower case, as schemes are compared, and
// whether it has one.
func cutScheme(url string) (string, bool) {
	scheme, _, found := strings.Cut(url, ":")
	if !found || len(scheme) < 2 || !isLetter(scheme[0]) {
		return "", false
	}
	for i := range len(scheme) {
		if c := scheme[i]; !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune("+-.", rune(c)) {
			return "", false
		}
	}
	return strings.ToLower(scheme), true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func unknownScheme(scheme string) error {
	if scheme == "foundationdb" || scheme == "etcd" {
		return fmt.Errorf("%w: conq: this program has no engine for %q: it must import github.com/conq-go/conq/kv/%s",
			kv.ErrInvalid, scheme+":", scheme)
	}
	return fmt.Errorf("%w: conq: no engine for %q: there are %s (a directory of that name is opened by ./%s:)",
		kv.ErrInvalid, scheme+":", strings.Join(kv.Schemes(), ", "), scheme)
}
