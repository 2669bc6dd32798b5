package retry

// Committed calls the functions that were given to OnCommit, in order: also those behind one that
// panics or ends its goroutine, as other callers may wait for theirs.
func Committed(functions []func()) {
	called := 0
	defer func() {
		if called < len(functions) {
			Committed(functions[called:])
		}
	}()
	for _, f := range functions {
		called++
		f()
	}
}
