package etcd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Errors of requests that callers deal with.
var (
	errCompacted = errors.New("etcd: the revision has been compacted")
	errFuture    = errors.New("etcd: the member has not reached the revision")
	errToken     = errors.New("etcd: the authentication token is no longer valid")
	errUsers     = errors.New("etcd: users or their rights have changed meanwhile")
	errBusy      = errors.New("etcd: the member has too many requests that wait")
	errRefused   = errors.New("etcd: request was refused") // nothing was done
	errLost      = errors.New("etcd: no answer")           // it may have been done

	// What servers refuse that are told to take less than they do by default.
	errTooLong = fmt.Errorf("%w: it is too large for the cluster, where --max-request-bytes should be 1572864", errRefused)
	errTooMany = fmt.Errorf("%w: it has too many operations for the cluster, where --max-txn-ops should be 128", errRefused)

	// The commit that fills the database is done, and refused afterwards (by quotaApplierV3
	// of etcd's server), with the same words as those after it, which are not done.
	errFull = errors.New("etcd: the database of the cluster has no space left")
)

// explain returns err, which a request failed with, as one of these.
func (c *conn) explain(err error) error {
	desc := rpctypes.ErrorDesc(err)
	for known, meaning := range map[error]error{
		rpctypes.ErrGRPCCompacted:              errCompacted,
		rpctypes.ErrGRPCRequestTooManyRequests: errBusy,
		rpctypes.ErrGRPCFutureRev:              errFuture,
		rpctypes.ErrGRPCInvalidAuthToken:       errToken,
		rpctypes.ErrGRPCAuthOldRevision:        errUsers,
		rpctypes.ErrGRPCUserEmpty:              errToken,
		rpctypes.ErrGRPCNoSpace:                errFull,
		rpctypes.ErrGRPCRequestTooLarge:        errTooLong,
		rpctypes.ErrGRPCTooManyOps:             errTooMany,
	} {
		if desc == rpctypes.ErrorDesc(known) && (meaning != errToken || c.o.Username != "") {
			return meaning
		}
	}
	switch status.Code(err) {
	case codes.ResourceExhausted:
		if strings.Contains(desc, "message larger than max") { // so gRPC says it
			return errTooLong
		}
		fallthrough
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return fmt.Errorf("%w: %s", errRefused, desc)
	}
	return fmt.Errorf("%w: %s", errLost, desc)
}

// passes tells whether a request was refused for what is different when it is sent again, mostly.
func passes(err error) bool {
	return errors.Is(err, errToken) || errors.Is(err, errUsers) || errors.Is(err, errBusy)
}

// overError is a refusal for the size of a request. What the limit is the cluster does not say, only
// that it is less than that; so the error does not tell it, and the TooLargeError has the most that it can be.
type overError struct {
	error
	size *kv.TooLargeError
}

func (e *overError) Unwrap() []error { return []error{e.error, e.size} }

// sized makes err, which a request failed with, a kv.ErrTooLarge if it is a refusal for its size:
// so calls that share a transaction try with less.
func sized(err error, r *pb.TxnRequest) error {
	size, unit := 0, "bytes"
	switch {
	case errors.Is(err, errTooLong):
		size = proto.Size(r)
	case errors.Is(err, errTooMany):
		size, unit = max(len(r.Compare), len(r.Success), len(r.Failure)), "operations"
	default:
		return err
	}
	return &overError{err, &kv.TooLargeError{What: "request to etcd", Size: size, Limit: size - 1, Unit: unit}}
}

func (c *conn) unavailable(err error) error {
	return &unavailableError{fmt.Errorf("etcd: no answer from %s in %v: %w", strings.Join(c.o.Endpoints, ", "), c.o.Patience, err)}
}

// unavailableError is a kv.ErrUnavailable that says who does not answer.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

func (*unavailableError) Is(target error) bool { return target == kv.ErrUnavailable }

// neverSent tells whether a request is known not to have left this process, as
// there was no connection: gRPC has no other sign of that than what it says. A
// request of which this is not known may have had an effect.
func neverSent(err error) bool {
	text := status.Convert(err).Message()
	return strings.HasPrefix(text, "latest balancer error: ") ||
		strings.HasSuffix(text, " while waiting for connections to become ready")
}
