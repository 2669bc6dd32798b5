package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

func (a *app) jobs() *cobra.Command {
	var filter work.Filter
	var limit int
	cmd := &cobra.Command{
		Use:     "jobs QUEUE",
		Short:   "List the jobs of a work queue",
		Long:    "List jobs: those of one state in its order (of priority, time), else by their ids.",
		Example: "  conq jobs emails --state dead\n  conq jobs emails --contains timeout --json",
		Args:    onlyQueueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit %d: it is 0, for all, or how many at most", limit)
			}
			return a.withJobs(cmd.Context(), args[0], func(q jobQueue) error {
				return a.listJobs(cmd.Context(), q, filter, limit)
			})
		},
	}
	registerConditions(cmd, &filter)
	integerFlag(cmd.Flags(), &limit, "limit", "n", 100, "how many at most; 0 is all")
	return cmd
}

func (a *app) listJobs(ctx context.Context, q jobQueue, filter work.Filter, limit int) error {
	header := "ID\tSTATE\tPRIORITY\tATTEMPTS\tWHEN\tKEY\tITEM\n"
	dead := filter.State == work.Dead
	if dead {
		header = "ID\tSTATE\tPRIORITY\tATTEMPTS\tWHEN\tKEY\tERROR\tITEM\n"
	}
	l := a.list(header)
	for job, err := range q.List(ctx, filter) {
		if err != nil {
			return err
		}
		if limit > 0 && l.rows == limit {
			if !a.json {
				fmt.Fprintf(a.stderr, "conq: there are more: -n 0 lists all\n")
			}
			break
		}
		why := ""
		if n := len(job.Failures); dead && n > 0 {
			why = short(job.Failures[n-1].Error, 60) + "\t"
		} else if dead {
			why = "-\t"
		}
		err = l.add(jobDocument(job), "%d\t%v\t%d\t%d\t%s\t%s\t%s%s\n",
			job.ID, job.State, job.Priority, job.Attempts, when(job.Time), short(job.Key, 20), why, short(string(job.Payload), 60))
		if err != nil {
			return err
		}
	}
	return l.end()
}

// when is a time as it stands in a table.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// short is a text as it stands in a table: on one line, printable, and cut off.
func short(s string, n int) string {
	if s == "" {
		return "-"
	}
	cut := ""
	if len(s) > n {
		s, cut = strings.ToValidUTF8(s[:n], ""), "…"
	}
	if q := strconv.Quote(strings.ReplaceAll(s, `"`, "'")); len(q) != len(s)+2 { // more than quotes would be escaped
		return strconv.Quote(s) + cut
	}
	return s + cut
}

// jobInfo is a job with --json.
type jobInfo struct {
	wire.JobInfo
	itemDocument
}

func jobDocument(job *work.Info[[]byte]) jobInfo {
	doc := jobInfo{wire.InfoOf(job), documentOf(job.Payload)}
	doc.Created, doc.Time = job.Created.UTC(), job.Time.UTC()
	for i := range doc.Failures {
		doc.Failures[i].Time = doc.Failures[i].Time.UTC()
	}
	return doc
}

// itemDocument is the item of a job with --json.
type itemDocument struct {
	Item     any    `json:"item"`
	Encoding string `json:"encoding,omitempty"`
}

func documentOf(payload []byte) (d itemDocument) {
	d.Item, d.Encoding = inJSON(payload)
	return d
}

// historyText says how often something has happened to a job, or nothing.
func historyText(h work.History) string {
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{{h.Releases, "released"}, {h.Expiries, "lease ran out"}, {h.Buries, "died"}, {h.Kicks, "kicked"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", part.text, plural(part.n, "time")))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) job() *cobra.Command {
	return &cobra.Command{
		Use:     "job QUEUE ID",
		Short:   "Show a job with the history of its attempts",
		Long:    "Show all of a job: its state, its item, and how its last attempts ended.",
		Example: "  conq job emails 17\n  conq job emails 17 --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("job needs a queue and the id of a job")
			}
			return layout.CheckName(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := jobID(args[1])
			if err != nil {
				return err
			}
			return a.withJobs(cmd.Context(), args[0], func(q jobQueue) error {
				job, err := q.Get(cmd.Context(), id)
				if errors.Is(err, work.ErrNotFound) {
					return nothingf("there is no job %d in %.200q", id, args[0])
				}
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(jobDocument(job))
				}
				return a.printJob(job)
			})
		},
	}
}

func jobID(s string) (work.ID, error) {
	id, err := parseInteger("id of a job", s)
	if err == nil && id < 1 {
		err = fmt.Errorf("id of a job %.40q: it is positive", s)
	}
	if err != nil {
		return 0, usagef("%w", err)
	}
	return work.ID(id), nil
}

func (a *app) printJob(job *work.Info[[]byte]) error {
	w := a.table()
	attempts := strconv.Itoa(job.Attempts)
	if job.MaxAttempts > 0 {
		attempts += fmt.Sprintf(" of %d", job.MaxAttempts)
	}
	fmt.Fprintf(w, "job\t%d\nstate\t%v\npriority\t%d\nattempts\t%s\nput\t%s\n", job.ID, job.State, job.Priority, attempts, when(job.Created))
	holder := "last holder"
	if job.State == work.Leased {
		holder = "holder"
	}
	for _, fact := range []struct{ name, value string }{
		{timeNames[job.State], when(job.Time)}, {"key", short(job.Key, 200)}, {"unique", short(job.Unique, 200)}, {holder, short(job.Holder, 200)},
		{"timeout", timeoutText(job.Timeout)},
	} {
		if fact.name != "" && fact.value != "-" {
			fmt.Fprintf(w, "%s\t%s\n", fact.name, fact.value)
		}
	}
	if job.Cancelled {
		fmt.Fprint(w, "cancelled\tyes, it dies when its attempt ends\n")
	}
	if len(job.Meta) > 0 {
		meta, _ := json.Marshal(job.Meta)
		fmt.Fprintf(w, "meta\t%s\n", meta)
	}
	fmt.Fprintf(w, "item\t%s\n", short(string(job.Payload), 1000))
	if history := historyText(job.History); history != "" {
		fmt.Fprintf(w, "history\t%s\n", history)
	}
	for _, f := range job.Failures {
		fmt.Fprintf(w, "attempt %d\t%s  %s\n", f.Attempt, when(f.Time), short(f.Error, 2100))
	}
	return w.Flush()
}

func timeoutText(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.String()
}

// timeNames say what the time of a job is.
var timeNames = map[work.State]string{
	work.Scheduled: "ready at", work.Leased: "leased until", work.Dead: "died", work.Done: "kept until",
}
