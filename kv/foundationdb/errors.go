package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/kv"
)

// FoundationDB's numbers of the errors that the engine treats in a way of their
// own.
const (
	codeTransactionTooOld   = 1007
	codeFutureVersion       = 1009
	codeNotCommitted        = 1020
	codeCommitUnknown       = 1021
	codeCommitUnknownFatal  = 1022
	codeCancelled           = 1025 // the transaction
	codeMaybeDelivered      = 1030
	codeTimedOut            = 1031
	codeTooManyWatches      = 1032
	codeProcessBehind       = 1037
	codeDatabaseLocked      = 1038
	codeClusterVersion      = 1039 // the cluster's version changed
	codeCommitProxyMemory   = 1042
	codeBatchThrottled      = 1051
	codeGRVProxyMemory      = 1078
	codeBrokenPromise       = 1100
	codeOperationCancelled  = 1101
	codeTagThrottled        = 1213
	codeProxyTagThrottled   = 1223
	codeOutsideLegalRange   = 2004
	codeInvertedRange       = 2005
	codeUsedDuringCommit    = 2017
	codeTransactionReadOnly = 2023
	codeTransactionTooLarge = 2101
	codeKeyTooLarge         = 2102
	codeValueTooLarge       = 2103
	codeInternal            = 4100
	codeUnknown             = 4000
)

// Error is an error of FoundationDB's client library. errors.Is matches it with
// the error of package kv that says the same, as the table in the package's
// documentation has it; errors.As finds the binding's fdb.Error in it. One that
// passes, after which the transaction is to be run again, matches kv.ErrConflict
// whatever its reason, so that layers in between treat it so too.
type Error struct {
	// Code is FoundationDB's number of the error.
	Code int

	err  error // the binding's
	call *call // in which it came up
}

func (e *Error) Error() string { return fmt.Sprintf("foundationdb: %v", e.err) }

func (e *Error) Unwrap() error { return e.err }

// Is tells whether the contract's error target says what e does.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case codeTransactionTooOld:
		return target == kv.ErrTooOld
	case codeNotCommitted, codeFutureVersion, codeProcessBehind, codeDatabaseLocked, codeClusterVersion,
		codeCommitProxyMemory, codeGRVProxyMemory, codeBatchThrottled, codeTagThrottled, codeProxyTagThrottled:
		return target == kv.ErrConflict
	case codeTransactionReadOnly:
		return target == kv.ErrReadOnly
	case codeOutsideLegalRange, codeInvertedRange:
		return target == kv.ErrInvalid
	case codeTimedOut:
		return target == context.DeadlineExceeded
	}
	return false
}

// maybeCommitted tells whether a commit that failed with an error may have
// happened all the same, or may happen yet: those of which FoundationDB says so;
// those of a commit that was given up, as the library does when its transaction is
// used meanwhile; and those that only a defect explains.
func maybeCommitted(code int) bool {
	switch code {
	case codeCommitUnknown, codeCommitUnknownFatal, codeClusterVersion,
		codeCancelled, codeOperationCancelled, codeTimedOut,
		codeUsedDuringCommit, codeMaybeDelivered, codeBrokenPromise, codeUnknown, codeInternal:
		return true
	}
	return code <= 0 // not an error of FoundationDB's
}

// timeoutError is the cause of a context that has ended because of
// Options.Timeout.
type timeoutError struct{ timeout time.Duration }

func (e timeoutError) Error() string {
	return fmt.Sprintf("foundationdb: not done within the timeout of %v", e.timeout)
}

func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout tells, as net.Error does, that this is one.
func (timeoutError) Timeout() bool { return true }

// fault returns the error for one of the library's in a call: why the call has to
// end, if it has to, and an *Error otherwise.
func (c *call) fault(err error) error {
	switch {
	case err == nil:
		return nil
	case c.db.closed():
		return kv.ErrClosed
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	}
	return &Error{c.db.client.code(err), err, c}
}

// codeOf returns the number of the library's error in err, if it came up in this
// call, or of the one that an error of the contract stands for, or 0.
func (c *call) codeOf(err error) int {
	var e *Error
	switch {
	case errors.As(err, &e) && e.call == c:
		return e.Code
	case errors.Is(err, kv.ErrConflict):
		return codeNotCommitted
	case errors.Is(err, kv.ErrTooOld):
		return codeTransactionTooOld
	}
	return 0
}
