// Package stream is the form in which queues travel from one store to another: what
// conq dump writes and conq load reads. It knows names, kinds, priorities and payloads
// as bytes, and nothing of stores.
//
// # Layout
//
//	stream   magic (9 bytes), version (4 bytes), blocks to the end
//	block    length (4 bytes, 1 to MaxBlock), so many bytes of the body, check (4 bytes)
//	body     number, (kind, name) of so many queues, items of each queue, totals
//	items    any number of: 01, priority, payload; then 00, number of items
//	totals   number of items, bytes of their payloads
//
// Integers of fixed length are big-endian. All others are unsigned varints (7 bits a
// byte, the lowest first, the top bit set on all but the last). Kind, name, priority
// and payload are byte strings: a varint with the length, then the bytes. The body is
// cut into blocks anywhere.
//
// A check is the CRC-32C of all bytes of the stream before it, earlier checks left out.
// So what a block holds is known to be right before it is looked at, and blocks that
// are missing, repeated, in another order or of another stream are noticed.
//
// # What is promised
//
// A Reader returns only what was read from blocks whose check was right. Whatever it is
// given it does not panic, and holds no more memory than what it returns and a few
// blocks. A stream that was cut off anywhere, or goes on behind its end, is an error.
//
// # Concurrency
//
// A Reader, and a Writer, belong to one goroutine at a time.
package stream

import (
	"errors"
	"fmt"
	"hash/crc32"
)

// Version is the version of the stream that this package writes and reads.
const Version = 1

// Limits of the format.
const (
	// MaxBlock is how many bytes of the body a block has at most.
	MaxBlock = 1 << 20
	// MaxText is the length of the longest kind, name or priority.
	MaxText = 1 << 16
)

// HeaderSize is how many bytes come before the first block.
const HeaderSize = len(magic) + 4

// magic has a byte that is not ASCII, and both kinds of line ends, so that what was
// taken for text on its way does not begin with it any more.
const magic = "\x89conq\r\n\x1a\n"

// Records of a queue.
const (
	endRecord  = 0
	itemRecord = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Queue is a queue whose items are in the stream.
type Queue struct{ Kind, Name string }

// Item is an item of a queue. What the priority says is up to the kind of the queue.
type Item struct{ Priority, Payload []byte }

var (
	// ErrBroken means that what was read is not a stream, or not all of it, or not as it
	// was written. The error is an *Error.
	ErrBroken = errors.New("stream: broken")

	// ErrVersion means that the stream has a later version than this package reads.
	ErrVersion = errors.New("stream: newer version")

	// ErrTooLong means that a payload is longer than the reader was told to take. The
	// error is a *TooLongError.
	ErrTooLong = errors.New("stream: payload is too long")
)

// Error says where a stream is broken, and how.
type Error struct {
	Offset int64  // in the stream, in bytes, from 0
	Queue  string // or "", where no queue was under way
	Item   int    // of the queue, from 1
	Reason string
}

func (e *Error) Error() string {
	where := fmt.Sprintf("at byte %d", e.Offset)
	if e.Queue != "" {
		where += fmt.Sprintf(", item %d of queue %.200q", e.Item, e.Queue)
	}
	return where + ": " + e.Reason
}

// Is tells that this is an ErrBroken.
func (e *Error) Is(target error) bool { return target == ErrBroken }

// TooLongError says which payload is too long.
type TooLongError struct {
	Queue       string
	Item        int // of the queue, from 1
	Size, Limit int // in bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("item %d of queue %.200q has %d bytes, over the limit of %d", e.Item, e.Queue, e.Size, e.Limit)
}

// Is tells that this is an ErrTooLong.
func (e *TooLongError) Is(target error) bool { return target == ErrTooLong }

// ReadError is an error of the io.Reader below.
type ReadError struct {
	Offset int64 // in the stream, in bytes
	Err    error
}

func (e *ReadError) Error() string { return fmt.Sprintf("reading at byte %d: %v", e.Offset, e.Err) }
func (e *ReadError) Unwrap() error { return e.Err }
