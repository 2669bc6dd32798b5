package etcd

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/conq-go/conq/kv"
)

// Options say which store of which cluster to open. Endpoints is required.
type Options struct {
	// Endpoints are the addresses of members, as host:port. There is no default.
	Endpoints []string

	// Prefix is what all keys of the store begin with: 1 to 128 bytes without NUL.
	// Stores of different prefixes do not touch each other. Default: "conq".
	Prefix string

	// TLS has the connections encrypted. Default: nil, they are not.
	TLS *tls.Config

	// Username and Password are for clusters that ask for them. Default: none.
	Username, Password string

	// Timeout is how long one request may take before it counts as lost. A read is
	// tried again then, at another member; of a commit the outcome is unknown.
	// Default: 5 s.
	Timeout time.Duration

	// Patience is how long reads are tried, and how long Open is, before the cluster
	// counts as not available (kv.ErrUnavailable). A context that ends ends them sooner. Default: 30 s.
	Patience time.Duration

	// Compact has the store forget the history of the cluster that is more than so
	// many revisions back, each time that it has removed about 1,000 keys. A queue
	// needs that, as what was dequeued stays in the way of what is dequeued until it
	// is compacted; but it is done to the whole cluster. So it is for clusters that
	// do not compact by themselves often enough, and have no other users that want
	// their history. Transactions that are older than that are run again. Default: 0,
	// nothing is compacted.
	Compact int

	// Logger is told, at level Warn, when a member does not answer and another is
	// tried. Default: nobody is told.
	Logger *slog.Logger
}

const (
	defaultPrefix   = "conq"
	maxPrefix       = 128
	defaultTimeout  = 5 * time.Second
	defaultPatience = 30 * time.Second
)

// Limits of a store. A request of etcd is at most 1.5 MiB, unless its server is
// told otherwise, and a transaction 128 comparisons and 128 operations. What
// Limits.Transaction leaves of the former is for the comparisons, for the prefix
// and for the encoding.
const (
	maxOperations = 128
	maxRequest    = 1536 << 10
	maxEnvelope   = 4 << 10 // what a server adds to a request before it measures it

	maxKey         = 4 << 10
	maxValue       = 512 << 10
	maxTransaction = 1280 << 10
)

var limits = kv.Limits{
	Key: maxKey, Value: maxValue, Transaction: maxTransaction, Operations: maxOperations,
	Shared: true, UnknownCommits: true,
}

// withDefaults checks o and fills in its defaults.
func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Patience = cmp.Or(o.Patience, defaultPatience)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(o.Endpoints) == 0:
		return o, fmt.Errorf("%w: etcd: no endpoint: at least one address of a member is needed, as host:2379", kv.ErrInvalid)
	case len(o.Prefix) > maxPrefix:
		return o, fmt.Errorf("%w: etcd: prefix of %d bytes: at most %d are allowed", kv.ErrInvalid, len(o.Prefix), maxPrefix)
	case strings.Contains(o.Prefix, "\x00"):
		return o, fmt.Errorf("%w: etcd: prefix %q holds a NUL", kv.ErrInvalid, o.Prefix)
	case o.Timeout < 0 || o.Patience < 0:
		return o, fmt.Errorf("%w: etcd: timeout %v, patience %v: neither may be negative", kv.ErrInvalid, o.Timeout, o.Patience)
	case o.Compact < 0:
		return o, fmt.Errorf("%w: etcd: compact %d: it may not be negative", kv.ErrInvalid, o.Compact)
	case o.Password != "" && o.Username == "":
		return o, fmt.Errorf("%w: etcd: a password without a user", kv.ErrInvalid)
	}
	for i, endpoint := range o.Endpoints {
		if endpoint == "" {
			return o, fmt.Errorf("%w: etcd: endpoint %d of %d is empty", kv.ErrInvalid, i+1, len(o.Endpoints))
		}
	}
	return o, nil
}
