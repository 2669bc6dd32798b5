package reads

import (
	"errors"
	"fmt"
	"testing"
)

// TestPages: pages may be empty, a loop may end early, and an error ends it.
func TestPages(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		pages [][]int
		fails int // the page that does; 0 is none
		stop  int // after so many values; 0 is never
		want  string
		reads int
	}{
		{[][]int{{}}, 0, 0, "[]", 1},
		{[][]int{{1, 2}, {}, {3}}, 0, 0, "[1 2 3]", 3},
		{[][]int{{1, 2}, {3}}, 0, 2, "[1 2]", 1},
		{[][]int{{1}, {2}, {3}}, 1, 0, "[1 broken]", 2},
	} {
		read := 0
		var got []any
		for v, err := range Pages(func(after []byte) ([]int, []byte, error) {
			i := read
			if read++; i > 0 && string(after) != fmt.Sprint("page ", i) || i == 0 && after != nil {
				t.Errorf("page %d begins behind %q", i, after)
			}
			if i > 0 && i == c.fails {
				return nil, nil, broken
			}
			if read == len(c.pages) {
				return c.pages[i], nil, nil
			}
			return c.pages[i], []byte(fmt.Sprint("page ", read)), nil
		}) {
			if got = append(got, v); err != nil {
				got[len(got)-1] = err
			}
			if len(got) == c.stop {
				break
			}
		}
		if fmt.Sprint(got) != c.want && !(len(got) == 0 && c.want == "[]") || read != c.reads {
			t.Errorf("%+v: got %v of %d pages", c, got, read)
		}
	}
}
