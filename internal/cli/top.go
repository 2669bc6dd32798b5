package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const topLong = `Show the queues of a store or a server live, those in which most happens first: how many
items or jobs there are that are neither dead nor done, how many come and go and fail a
second, since when the oldest waits that could be taken, and how many jobs are ready, leased,
waiting for their time or for another job, and dead.

On a terminal q ends it. Elsewhere it prints one screen, or as many as -n says. A server
knows what has come and gone in the last ten seconds; of a store that other processes use
only the difference is seen from one screen to the next, so that rates are shown from the
second one on. Items are counted up to 10,000.`

type topFlags struct {
	every time.Duration
	times int
}

func (a *app) top() *cobra.Command {
	var flags topFlags
	cmd := &cobra.Command{
		Use:     "top",
		Short:   "Show the queues live, those in which most happens first",
		Long:    topLong,
		Example: "  conq top --store http://127.0.0.1:7711\n  conq top -n 3 --interval 10s > screens",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.every < 100*time.Millisecond {
				return usagef("--interval is %v: it can be from 100ms on", flags.every)
			}
			if flags.times < 0 || flags.times == 0 && cmd.Flags().Changed("times") {
				return usagef("-n is %d: it can be from 1 on", flags.times)
			}
			a.lasts = true
			return a.withBackend(cmd.Context(), a.openExisting, func(b backend) error { return a.showTop(cmd.Context(), b, flags) })
		},
	}
	cmd.Flags().DurationVarP(&flags.every, "interval", "i", time.Second, "time between two screens")
	cmd.Flags().IntVarP(&flags.times, "times", "n", 0, "number of screens (default without end on a terminal, else 1)")
	return cmd
}

func (a *app) showTop(ctx context.Context, b backend, flags topFlags) error {
	s := &screens{app: a, live: commands(a.stdout) && !a.json}
	if flags.times == 0 && !s.live {
		flags.times = 1
	}
	s.open()
	defer s.close()
	ticker := time.NewTicker(flags.every)
	defer ticker.Stop()
	for n := 1; ; n++ {
		all, err := b.looks(ctx, n == 1)
		if err == nil {
			err = s.show(all, time.Now())
		}
		if n == 1 && err == nil {
			ctx = s.listen(ctx)
		}
		if err == nil && n != flags.times {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-ticker.C:
				continue
			}
		}
		if errors.Is(context.Cause(ctx), errQuit) {
			return nil
		}
		return err
	}
}

// errQuit is why a context has ended: by a key.
var errQuit = errors.New("quit")

// screens prints how queues look, again and again.
type screens struct {
	app     *app
	live    bool            // one takes the place of the other
	last    map[string]look // of the screen before
	at      time.Time
	restore func() // has the terminal work as before
}

// open takes the terminal, if there is one.
func (s *screens) open() {
	s.restore = func() {}
	if s.live {
		fmt.Fprint(s.app.stdout, "\x1b[?1049h\x1b[?25l") // the other screen, without a cursor
	}
}

// close gives the terminal back.
func (s *screens) close() {
	s.restore()
	if s.live {
		fmt.Fprint(s.app.stdout, "\x1b[?25h\x1b[?1049l")
	}
}

// listen returns a context that ends with a key.
func (s *screens) listen(ctx context.Context) context.Context {
	keys, isFile := s.app.stdin.(*os.File)
	if !s.live || !isFile || !isTerminal(keys) {
		return ctx
	}
	state, err := term.MakeRaw(int(keys.Fd()))
	if err != nil {
		return ctx
	}
	ctx, quit := context.WithCancelCause(ctx)
	s.restore = func() {
		quit(nil)
		_ = term.Restore(int(keys.Fd()), state)
	}
	go func() {
		for key := make([]byte, 1); ; {
			if n, err := keys.Read(key); err != nil || n == 1 && strings.ContainsRune("qQ\x03\x04", rune(key[0])) { // or ^C, ^D
				quit(errQuit)
				return
			}
		}
	}()
	return ctx
}

// show prints a screen.
func (s *screens) show(all []look, now time.Time) error {
	if s.last == nil {
		s.last = make(map[string]look, len(all))
	}
	for i := range all {
		all[i].compare(s.last, now.Sub(s.at))
	}
	clear(s.last)
	for _, l := range all {
		s.last[l.Name] = l
	}
	s.at = now
	slices.SortStableFunc(all, func(a, b look) int {
		return cmp.Or(cmp.Compare(b.in+b.out+b.failed, a.in+a.out+a.failed), cmp.Compare(b.depth(), a.depth()))
	})
	if s.app.json {
		return s.app.printJSON(topDocument(all, now))
	}
	text := s.app.topText(all, now)
	if s.live {
		text = fitted(text, s.app.stdout)
	} else {
		text += "\n"
	}
	_, err := io.WriteString(s.app.output(), text)
	return err
}

// compare sets rates by the difference to the screen before, if nobody knows more.
func (l *look) compare(last map[string]look, passed time.Duration) {
	before, seen := last[l.Name]
	if l.known || !seen {
		return
	}
	change := float64(l.depth()-before.depth()) / passed.Seconds()
	l.in, l.out = max(0, change), max(0, -change)
	if l.jobs != nil && before.jobs != nil {
		l.failed = max(0, float64(l.jobs.Dead-before.jobs.Dead)/passed.Seconds())
	}
}

// fitted is a text that takes the place of the last one on a terminal: what is too long or too wide is left out.
func fitted(text string, terminal io.Writer) string {
	width, height := 0, 0
	if f, ok := terminal.(*os.File); ok {
		width, height, _ = term.GetSize(int(f.Fd()))
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if height > 0 && len(lines) > height {
		lines = lines[:height]
	}
	for i, line := range lines {
		if letters := []rune(line); width > 0 && len(letters) > width {
			lines[i] = string(letters[:width])
		}
	}
	return "\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J"
}

func (a *app) topText(all []look, now time.Time) string {
	var items int64
	var in, out, failed float64
	for _, l := range all {
		items, in, out, failed = items+l.depth(), in+l.in, out+l.out, failed+l.failed
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  %s  %s, depth %s, in %s/s, out %s/s, failed %s/s\n\n",
		now.Format(time.TimeOnly), a.shownStore(), plural(len(all), "queue"), count(int(items)), rate(in), rate(out), rate(failed))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "QUEUE\tKIND\tDEPTH\tIN/S\tOUT/S\tFAILED/S\tOLDEST\tREADY\tLEASED\tWAITING\tDEAD\n")
	for _, l := range all {
		kind, depth := string(l.Kind), count(int(l.depth()))
		if l.more {
			depth += "+"
		}
		oldest, states := "-", "-\t-\t-\t-"
		if !l.oldest.IsZero() {
			oldest = max(0, now.Sub(l.oldest)).Truncate(time.Second).String()
		}
		if j := l.jobs; j != nil {
			states = strings.Join([]string{count(int(j.Ready)), count(int(j.Leased)), count(int(j.Scheduled + j.Blocked)), count(int(j.Dead))}, "\t")
			if j.Paused {
				kind += ", paused"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", shown(l.Name), kind, depth, rate(l.in), rate(l.out), rate(l.failed), oldest, states)
	}
	_ = w.Flush() // to memory
	return b.String()
}

// rate writes how many a second.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return count(int(n + 0.5))
}

// topScreen is a screen with --json.
type topScreen struct {
	Time   time.Time  `json:"time"`
	Queues []topQueue `json:"queues"`
}

type topQueue struct {
	info
	Depth  int64     `json:"depth"`
	In     float64   `json:"in"`
	Out    float64   `json:"out"`
	Failed float64   `json:"failed"`
	Oldest time.Time `json:"oldest,omitzero"`
}

func topDocument(all []look, now time.Time) topScreen {
	s := topScreen{Time: now.UTC(), Queues: []topQueue{}}
	for _, l := range all {
		s.Queues = append(s.Queues, topQueue{l.info(), l.depth(), l.in, l.out, l.failed, l.oldest})
	}
	return s
}
