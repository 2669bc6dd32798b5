package kv

// LastKey returns the last key of a range, or nil if it has none. It is a Range with
// Limit 1, Reverse and KeysOnly, errors and conflicts included; but an engine that keeps
// the ends of ranges in memory need not set up a loop for it. It does so by a method of
// its Readers, LastKey(span, among Range) ([]byte, error). The key must not be changed.
//
// Mostly LastKey will be asked for other parts of among, too, which holds span: where the
// engine has to look, it may find out about those around.
func LastKey(r Reader, span, among Range) ([]byte, error) {
	if r, ok := r.(interface {
		LastKey(span, among Range) ([]byte, error)
	}); ok {
		return r.LastKey(span, among)
	}
	return lastKey(r, span)
}

// LastKeys returns what LastKey does for each of several ranges, in order. The keys are
// appended to a slice of the caller's, which may be nil. An engine may look for all of them
// at once, by a method of its Readers, LastKeys([]Range, Range, [][]byte) ([][]byte, error).
func LastKeys(r Reader, spans []Range, among Range, to [][]byte) ([][]byte, error) {
	if r, ok := r.(interface {
		LastKeys([]Range, Range, [][]byte) ([][]byte, error)
	}); ok {
		return r.LastKeys(spans, among, to)
	}
	for _, span := range spans {
		key, err := LastKey(r, span, among)
		if err != nil {
			return nil, err
		}
		to = append(to, key)
	}
	return to, nil
}

func lastKey(r Reader, span Range) ([]byte, error) {
	for last, err := range r.Range(span, RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}) {
		return last.Key, err
	}
	return nil, nil
}

// Known returns the pairs of a range, as Range does, if the engine has all of them in
// memory, up to the limit, of which there must be one. Otherwise known is false, nothing
// has happened, and Range will tell. An engine that has pairs in memory says so by a method
// of its Readers, Known(Range, RangeOptions, []KeyValue) ([]KeyValue, bool, error).
//
// The pairs are appended to a slice of the caller's, which may be nil. Their keys must not be changed.
func Known(r Reader, span Range, o RangeOptions, to []KeyValue) (pairs []KeyValue, known bool, err error) {
	if r, ok := r.(interface {
		Known(Range, RangeOptions, []KeyValue) ([]KeyValue, bool, error)
	}); ok && o.Limit > 0 {
		return r.Known(span, o, to)
	}
	return to, false, nil
}
