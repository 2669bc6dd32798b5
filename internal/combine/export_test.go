package combine

// New returns an idle combiner.
func New[Q, R any](options Options[Q, R]) *Combiner[Q, R] {
	l := new(Combiner[Q, R])
	l.Init(options)
	return l
}
