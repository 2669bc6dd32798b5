package kv

// LastKey returns the last key of a range, or nil if it has none. It is a Range with
// Limit 1, Reverse and KeysOnly, errors and conflicts included; but an engine that keeps
// the ends of ranges in memory need not set up a loop for it. It does so by a method of
// its Readers, LastKey(Range) ([]byte, error).
func LastKey(r Reader, span Range) ([]byte, error) {
	if r, ok := r.(interface{ LastKey(Range) ([]byte, error) }); ok {
		return r.LastKey(span)
	}
	for last, err := range r.Range(span, RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}) {
		return last.Key, err
	}
	return nil, nil
}
