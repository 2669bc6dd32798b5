// Package queue has what a queue of a store (package conq) and one of a server (package client) have in common:
// codecs, the ends of a priority queue, kinds of queues, errors. A program that uses client alone imports it, as conq
// links a store. Others find all of it in package conq, under the same names.
//
// It imports kv, for errors that match one of a store's, and tuple, for a codec.
package queue

// End is an end of a priority queue.
type End int

const (
	Min End = iota // the lowest priority
	Max            // the highest priority
)

// String returns "min" or "max".
func (e End) String() string {
	switch e {
	case Min:
		return "min"
	case Max:
		return "max"
	}
	return "unknown"
}

// MoveOptions are how items are moved between queues. The zero value is the default.
type MoveOptions struct {
	// From is the end of a priority queue where items are taken. Default: Min.
	From End
}

// Prioritized is a value with its priority.
type Prioritized[T any] struct {
	Value    T
	Priority int64
}

// Kind is what kind of queue a name stands for, as text.
type Kind string

// The kinds of queues.
const (
	KindQueue         Kind = "queue"
	KindPriorityQueue Kind = "priority queue"
	KindWorkQueue     Kind = "work queue" // see package work
)

// MaxName is the length of the longest name of a queue, in bytes.
const MaxName = 1024
