package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
)

// ErrNotBuilt means that the program was built without FoundationDB's binding.
var ErrNotBuilt = errors.New("foundationdb: this program was built without FoundationDB: " +
	"install its client package 7.3 (libfdb_c and its headers) and build with CGO_ENABLED=1 and -tags foundationdb")

const scheme = "foundationdb:"

// maxPrefix leaves room for keys.
const maxPrefix = 1000

func init() {
	kv.Register("foundationdb", openURL)
}

// Options are the choices for a store. The zero value is a good default.
type Options struct {
	// Prefix is put in front of every key, so that several stores can share a
	// cluster. It is at most 1,000 bytes long and does not begin with 0xff; no store
	// on the cluster should have a prefix that another one's begins with. Keys may
	// be that much shorter. Default: none, so that keys are those of FoundationDB's
	// recipes.
	Prefix []byte

	// Timeout is the longest that one call of Transact or ReadTransact may take, all
	// attempts together. One that takes longer fails as if its context had ended,
	// with context.DeadlineExceeded. Default: 0, as long as its context lasts.
	Timeout time.Duration

	// Retries is how many times Transact runs a function again at most. Default: 0,
	// until its context ends.
	Retries int
}

func (o Options) check() error {
	switch {
	case len(o.Prefix) > maxPrefix:
		return fmt.Errorf("%w: foundationdb: a prefix of %d bytes: at most %d are allowed", kv.ErrInvalid, len(o.Prefix), maxPrefix)
	case len(o.Prefix) > 0 && o.Prefix[0] == 0xff:
		return fmt.Errorf("%w: foundationdb: prefix %.40q begins with 0xff, which is reserved", kv.ErrInvalid, o.Prefix)
	case o.Timeout < 0:
		return fmt.Errorf("%w: foundationdb: timeout %v is negative", kv.ErrInvalid, o.Timeout)
	case o.Retries < 0:
		return fmt.Errorf("%w: foundationdb: retry limit %d is negative", kv.ErrInvalid, o.Retries)
	}
	return nil
}

// parseURL returns what "foundationdb:/path/to/fdb.cluster?prefix=a&timeout=5s"
// means. The prefix may hold any bytes, as %XX.
func parseURL(name string) (clusterFile string, o Options, err error) {
	clusterFile, query, _ := strings.Cut(strings.TrimPrefix(name, scheme), "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", o, fmt.Errorf("%w: foundationdb: %.200q: %w", kv.ErrInvalid, name, err)
	}
	for option, all := range values {
		if len(all) > 1 {
			return "", o, fmt.Errorf("%w: foundationdb: %.200q: option %q is given twice", kv.ErrInvalid, name, option)
		}
		if err := o.set(option, all[0]); err != nil {
			return "", o, fmt.Errorf("%w: foundationdb: %.200q: %w", kv.ErrInvalid, name, err)
		}
	}
	return clusterFile, o, o.check()
}

func (o *Options) set(option, value string) (err error) {
	switch option {
	case "prefix":
		o.Prefix = []byte(value)
	case "timeout":
		if o.Timeout, err = time.ParseDuration(value); err != nil || o.Timeout <= 0 {
			return fmt.Errorf("timeout %.40q is not a positive duration such as 5s", value)
		}
	case "retries":
		if o.Retries, err = strconv.Atoi(value); err != nil || o.Retries <= 0 {
			return fmt.Errorf("retries %.40q is not a whole number from 1 up", value)
		}
	default:
		return fmt.Errorf("unknown option %.40q; there are prefix, timeout and retries", option)
	}
	return nil
}

func openURL(ctx context.Context, name string) (kv.DB, error) {
	clusterFile, o, err := parseURL(name)
	if err != nil {
		return nil, err
	}
	return Open(ctx, clusterFile, o)
}

// Open opens the store in the cluster that clusterFile leads to. An empty
// clusterFile is FoundationDB's default: what the environment variable
// FDB_CLUSTER_FILE names, fdb.cluster in the working directory, or that of the
// installation.
//
// Open does not wait for the cluster; the first transaction does, until its
// context ends. Any number of stores can be open on a cluster; they share a
// connection, which lasts as long as the process. The error is [ErrNotBuilt] in a
// program without FoundationDB's binding.
func Open(ctx context.Context, clusterFile string, opts ...Options) (*DB, error) {
	o, err := options.Only(opts)
	if err == nil {
		err = options.Context(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("foundationdb: %w", err)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if clusterFile != "" && available {
		switch info, err := os.Stat(clusterFile); {
		case err != nil:
			return nil, fmt.Errorf("foundationdb: cluster file: %w", err)
		case info.IsDir():
			return nil, fmt.Errorf("foundationdb: cluster file %.200q is a directory", clusterFile)
		}
	}
	c, err := connect(clusterFile)
	if err != nil {
		return nil, err
	}
	return newDB(c, o), nil
}
