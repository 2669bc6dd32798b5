package foundationdb

// client is what the engine needs of FoundationDB's client library: a connection
// to a cluster. It is safe for concurrent use. The binding is behind it in
// binding.go, and in tests a cluster in memory.
type client interface {
	// begin returns a new transaction. Nothing is sent yet.
	begin() (transaction, error)

	// code returns FoundationDB's number of an error that the library has returned,
	// or 0 if it has none.
	code(err error) int
}

// transaction is a transaction of the library. What a method is given, it copies;
// what it returns is the caller's. Keys are those in the cluster. Only cancel may
// be called at the same time as another method.
//
// The engine uses it in two phases: first it reads, always by snapshot; then it
// adds read conflicts, then writes, then it commits. The order matters: the
// library leaves out of a read conflict what the transaction has written before.
type transaction interface {
	readVersion() future[int64]
	setReadVersion(version int64)

	// get returns nil for an absent key.
	get(key []byte) future[[]byte]
	// getRange reads from begin on up to and not including end, or back from end. With a
	// limit it returns so many pairs at most.
	getRange(begin, end []byte, limit int, reverse bool) pairs

	addReadConflict(begin, end []byte) error
	addWriteConflict(begin, end []byte) error
	set(key, value []byte)
	clear(key []byte)
	clearRange(begin, end []byte)
	add(key, operand []byte)

	// watch is ready when the value differs from the one that the transaction has
	// read. It begins when the transaction has committed.
	watch(key []byte) future[struct{}]

	commit() future[struct{}]
	// onError is ready, after a pause, when the transaction is as new and the error
	// was one after which to try again. Otherwise it fails.
	onError(code int) future[struct{}]
	// cancel makes all that the transaction waits for fail.
	cancel()
}

// future is something that the library is working on.
type future[T any] interface {
	// Get waits for it.
	Get() (T, error)
	// Cancel makes it fail if it is not ready. It may be called while another
	// goroutine is in Get.
	Cancel()
}

// pairs are the results of a range read, fetched as they are needed.
type pairs interface {
	// next waits for the next pair, if there is one.
	next() (key, value []byte, ok bool, err error)
}
