package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/conq-go/conq/kv"
)

// slack is what may stand on a line besides the item: its priority.
const slack = 32

// separator ends an item, on the way in as on the way out.
func separator(null bool) byte {
	if null {
		return 0
	}
	return '\n'
}

// lineReader splits a stream into items. An item ends with the separator, or
// with the stream; every other byte is its own.
type lineReader struct {
	r         *bufio.Reader
	separator byte
	max       int // longest item; 0 is any
}

func newLineReader(r io.Reader, separator byte, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), separator: separator, max: max}
}

// next returns the next item, in memory of its own, or io.EOF. One that is longer
// than max, and what may stand before it, is read to its end without being kept,
// and gives a *kv.TooLargeError.
func (l *lineReader) next() ([]byte, error) {
	var item []byte
	size := 0
	for {
		part, err := l.r.ReadSlice(l.separator)
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		size += len(part)
		tooLarge := l.max > 0 && size > l.max+slack
		if !tooLarge {
			item = append(item, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && size == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, fmt.Errorf("reading standard input: %w", err)
		case tooLarge:
			return nil, &kv.TooLargeError{What: "item", Size: size, Limit: l.max, Unit: "bytes"}
		}
		return item, nil
	}
}
