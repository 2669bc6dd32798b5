package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how far reading standard input is. A nil progress
// shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress returns a progress if standard error is a terminal in which it fits a line. total
// is the number of bytes that will be read, or -1.
func (a *app) newProgress(total int64) *progress {
	const enough = 60 // columns
	width := columns(a.stderr)
	if !commands(a.stderr) || isTerminal(a.stdin) || 0 < width && width < enough {
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

// jobProgress returns what shows on a terminal how many jobs are done, and what ends that.
func (a *app) jobProgress() (shown func(jobs int), finish func()) {
	p := (&app{stderr: a.stderr}).newProgress(-1) // standard input has nothing to do with it
	if p == nil {
		return func(int) {}, func() {}
	}
	progressbar.OptionShowBytes(false)(p.bar)
	return func(n int) {
		p.bar.Describe(plural(n, "job"))
		_ = p.bar.Set(n) // a display that fails must not stop the work
	}, p.finish
}

// set shows how many items are done, and how many bytes of the input they were.
func (p *progress) set(done int, bytes int64) {
	if p == nil {
		return
	}
	p.bar.Describe(items(done))
	_ = p.bar.Set64(bytes) // a display that fails must not stop the work
}

func (p *progress) finish() {
	if p != nil {
		_ = p.bar.Finish()
	}
}
