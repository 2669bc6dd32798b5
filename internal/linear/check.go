package linear

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrTimeout means that no answer was found in time. It is a failure: the
// history may be wrong. Use fewer clients, or shorter queues.
var ErrTimeout = errors.New("linear: the search for an order did not end in time")

// Limit is how long [Check] searches, far more than a history of a few
// milliseconds of work should need.
const Limit = 2 * time.Minute

// Violation is a history that no order of its calls explains.
type Violation struct {
	History History
}

func (v *Violation) Error() string {
	return fmt.Sprintf("linear: queue %q: no order of its %d calls explains what they returned",
		v.History.Name, len(v.History.Ops))
}

// Verify returns nil if some order of the calls explains all results, a
// *Violation if none does, and ErrTimeout if it could not find out in time.
func Verify(h History, limit time.Duration) error {
	m, ops, err := prepare(h)
	if err != nil {
		return err
	}
	switch porcupine.CheckOperationsTimeout(m, ops, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return &Violation{h}
	default:
		return fmt.Errorf("%w: %d calls, %v", ErrTimeout, len(h.Ops), limit)
	}
}

// Check fails the test for each history that Verify refuses. It prints what
// Shrink leaves of it, and where a picture of it is.
func Check(t testing.TB, histories ...History) {
	t.Helper()
	for _, h := range histories {
		err := Verify(h, Limit)
		if err == nil {
			continue
		}
		t.Errorf("%v", err)
		var v *Violation
		if !errors.As(err, &v) {
			continue
		}
		small := Shrink(h)
		t.Logf("its first %d calls are wrong on their own:\n%s", len(small.Ops), Listing(small))
		dir, err := Draw(h, small)
		t.Logf("pictures of all calls and of these: %s (%v)", dir, err)
	}
}

// CheckShared is Check for queues in a store that processes share: puts and takes among themselves, and
// in two steps with those that look, which may see an item whose take is under way.
func CheckShared(t testing.TB, histories ...History) {
	t.Helper()
	for _, h := range histories {
		Check(t, h.PutsAndTakes())
		h.TwoSteps = true
		Check(t, h)
	}
}

// Listing is a history as text: a line for each call, in order of their begin.
func Listing(h History) string {
	ops := slices.Clone(h.Ops)
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "%6d .. %-6d %v\n", op.Call, op.Return, op)
	}
	return b.String()
}

// Draw writes Porcupine's pictures of histories, and their listings, into a new
// directory, which stays.
func Draw(histories ...History) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "conq-linear-"); err != nil {
		return "", err
	}
	for i, h := range histories {
		m, ops, err := prepare(h)
		if err != nil {
			return dir, err
		}
		_, info := porcupine.CheckOperationsVerbose(m, ops, Limit)
		file := filepath.Join(dir, fmt.Sprint(i))
		err = errors.Join(
			porcupine.VisualizePath(m, info, file+".html"),
			os.WriteFile(file+".txt", []byte(Listing(h)), 0o600))
		if err != nil {
			return dir, err
		}
	}
	return dir, nil
}
