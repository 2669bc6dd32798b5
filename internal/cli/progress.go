package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how far something is. A nil progress shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress returns a progress if standard error is a terminal in which it fits a line. total
// is the number of bytes that there will be, or -1.
func (a *app) newProgress(total int64) *progress {
	const enough = 60 // columns
	width := columns(a.stderr)
	if !commands(a.stderr) || 0 < width && width < enough {
		return nil
	}
	return &progress{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionSetDescription("0 items"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(24),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	)}
}

// inputProgress is for reading standard input, unless somebody types that.
func (a *app) inputProgress() *progress {
	if isTerminal(a.stdin) {
		return nil
	}
	return a.newProgress(a.stdinSize())
}

// jobProgress counts jobs, not bytes.
func (a *app) jobProgress() *progress {
	p := a.newProgress(-1)
	if p != nil {
		progressbar.OptionShowBytes(false)(p.bar)
	}
	return p
}

// set shows how much is done, and how many bytes that were.
func (p *progress) set(done string, bytes int64) {
	if p == nil {
		return
	}
	p.bar.Describe(done)
	_ = p.bar.Set64(bytes) // a display that fails must not stop the work
}

// clear makes room for a line, until it is set again.
func (p *progress) clear() {
	if p != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) finish() {
	if p != nil {
		_ = p.bar.Finish()
	}
}
