package combine

// New returns an idle combiner.
func New[Q, R any](options Options[Q, R]) *Combiner[Q, R] {
	l := new(Combiner[Q, R])
	l.Init(options)
	return l
}

// Shared returns how many batches so many calls have at the same time, and how many calls each has at most.
func (l *Combiner[Q, R]) Shared(all int) (batches, calls int) { return l.parallel(all), l.share(all) }
