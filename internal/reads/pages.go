package reads

import "iter"

// Pages returns the values of all pages in order. page reads the one behind a place, which is nil at first, and returns where
// to go on, or nil at the end. After an error there is nothing more.
func Pages[T any](page func(after []byte) (values []T, next []byte, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := []byte(nil); ; {
			values, next, err := page(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range values {
				if !yield(v, nil) {
					return
				}
			}
			if after = next; after == nil {
				return
			}
		}
	}
}
