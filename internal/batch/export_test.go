package batch

// New returns an idle Batcher.
func New[Q, R any](options Options[Q, R]) *Batcher[Q, R] {
	b := new(Batcher[Q, R])
	b.Init(options)
	return b
}

// Shared returns how many batches so many calls have at the same time, and how many calls each has at most.
func (b *Batcher[Q, R]) Shared(calls int) (batches, each int) {
	return b.parallel(calls), b.mostOf(calls)
}

// Unended returns the calls whose contexts have not ended, and finishes the others.
func Unended[Q, R any](calls []*Call[Q, R]) []*Call[Q, R] { return unended(calls) }
