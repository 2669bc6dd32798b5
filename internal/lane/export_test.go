package lane

// New returns an idle lane.
func New[Q, R any](options Options[Q, R]) *Lane[Q, R] {
	l := new(Lane[Q, R])
	l.Init(options)
	return l
}
