package conq

import (
	"fmt"
	"reflect"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/kv"
)

// Options are the options of a handle. The zero value is the default. None is
// stored: handles of one queue may differ.
type Options = handle.Options

// Staging says when items are taken by staged requests: written beside the queue,
// where they conflict with nothing, and served together by one of those who have
// written them. That is for consumers in many processes, whose transactions would
// conflict with each other at the head of the queue.
type Staging = handle.Staging

const (
	// StagingAuto stages where other processes share the store, from when two
	// transactions that take items have conflicted, or somebody else has staged a
	// request, until neither has happened for a while.
	StagingAuto = handle.StagingAuto
	// StagingAlways stages every request, where other processes share the store.
	StagingAlways = handle.StagingAlways
	// StagingNever stages none. Requests of others are served by them, and compete
	// with this handle.
	StagingNever = handle.StagingNever
)

// Event is something that a handle has done.
type Event = handle.Event

// EventKind is what has been done.
type EventKind = handle.EventKind

const (
	Added     = handle.Added     // a transaction has enqueued or pushed
	Taken     = handle.Taken     // a transaction has dequeued or popped
	Requested = handle.Requested // a staged request was written
	Fulfilled = handle.Fulfilled // a transaction has served staged requests
	Collected = handle.Collected // a staged request has got its items
	Expired   = handle.Expired   // items that a consumer never collected were put back
	Waiting   = handle.Waiting   // the number of waiting callers has changed
)

// only returns the options given, or none, and at most one is allowed. What they are for
// is said by the name of their type.
func only[O any](given []O) (o O, err error) {
	switch len(given) {
	case 0:
	case 1:
		o = given[0]
	default:
		err = fmt.Errorf("%d %s given, at most one is allowed: %w", len(given), reflect.TypeFor[O]().Name(), kv.ErrInvalid)
	}
	return o, err
}
