package reads

import "io"

// mostEmpty is how often a reader may return nothing in a row.
const mostEmpty = 100

// Progress returns r, which is given up with io.ErrNoProgress if it returns neither bytes nor an error
// again and again. io.ReadFull by itself asks it for ever, and bufio does where that asks it. It may be
// used as r may.
func Progress(r io.Reader) io.Reader { return reader{r} }

type reader struct{ r io.Reader }

func (p reader) Read(b []byte) (n int, err error) {
	for range mostEmpty {
		if n, err = p.r.Read(b); n != 0 || err != nil || len(b) == 0 {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}
