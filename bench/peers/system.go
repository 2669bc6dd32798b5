package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// class is the worst that an acknowledged item survives.
type class string

const (
	power   class = "power"   // power failure
	process class = "process" // the death of the process that keeps the items
	none    class = "none"
)

var classes = []class{power, process, none}

// order is the order of items that a system promises.
type order int

const (
	unordered      order = iota
	fifo                 // what was put before another put began comes first
	byPriority           // smallest first
	byPriorityFIFO       // and among equals in the order fifo
)

// system is a peer in one configuration: a line of the table.
type system struct {
	name     string
	class    class
	crash    string // what acknowledged items the death of the process costs
	outage   string // what a power failure costs
	priority bool   // is a priority queue
	order    order
	waits    bool // a take waits for an item if it is told to
	hands    bool // in a transfer items go from puts to takes that wait, and are never written
	// atMost is how many items it gets, because of what whyAtMost says. 0: no limit.
	atMost    int
	whyAtMost string
	// missing says what has to be installed. nil, or "": nothing.
	missing func() string
	open    func(context.Context, env) (peer, error)
}

// env is what a system is opened for.
type env struct {
	dir        string // its own, empty
	producers  int
	consumers  int
	payload    int
	priorities int
	items      int // that are in it at most at one time
}

// peer is a system that is open, and empty.
type peer interface {
	// client returns what one goroutine uses.
	client(context.Context) (client, error)
	// pid is that of its server, or 0 if it runs in this process.
	pid() int
	// close also ends calls that are under way.
	close() error
}

// client is used by one goroutine at a time.
type client interface {
	// put returns when the item is acknowledged. It does not keep value.
	put(ctx context.Context, value []byte, priority int) error
	// take removes an item for good, and returns it. With wait, systems that wait
	// do so until there is one; else errEmpty says that there is none.
	take(ctx context.Context, wait bool) ([]byte, error)
	close() error
}

var errEmpty = errors.New("there is no item")

// recovered returns a panic of f, which is of a peer, as an error: the others are still to be
// measured. Pebble panics when its log can't be written (see quiet), and so do etcd's recipes.
func recovered(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v", p)
		}
	}()
	return f()
}

// inProcess is embedded by peers without a server.
type inProcess struct{}

func (inProcess) pid() int { return 0 }

// shared is embedded by clients that have nothing of their own to close.
type shared struct{}

func (shared) close() error { return nil }

const (
	nothing = "nothing"
	any10ms = "10 ms"
)

// systems are all of them, in the order of the table.
func systems() []system {
	return slices.Concat(
		conqSystems(), floorSystems(), goqueSystems(), goqiteSystems(), bboltSystems(), beanstalkdSystems(), conqServeSystems(),
		redisSystems(), postgresSystems(), riverSystems(), natsSystems(), etcdSystems())
}

// choose returns the systems whose names match the expression, and are of the
// classes, which are separated by commas; empty strings choose all.
func choose(all []system, expression, of string) ([]system, error) {
	match, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("-peers %q: %w", expression, err)
	}
	wanted := classes
	if of != "" {
		wanted = nil
		for name := range strings.SplitSeq(of, ",") {
			if !slices.Contains(classes, class(name)) {
				return nil, fmt.Errorf("-class %q: there are %v", name, classes)
			}
			wanted = append(wanted, class(name))
		}
	}
	var chosen []system
	for _, s := range all {
		if match.MatchString(s.name) && slices.Contains(wanted, s.class) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-peers %q -class %q: there is no such system, only:\n%s", expression, of, names(all))
	}
	return chosen, nil
}

func names(all []system) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "  %-30s %s\n", s.name, s.class)
	}
	return b.String()
}
