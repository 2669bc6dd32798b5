package wire

import (
	"time"

	"github.com/conq-go/conq/work"
)

// NewJob is a job to be put.
type NewJob struct {
	Payload
	Priority    int64             `json:"priority,omitempty" doc:"The lowest is first. Default: 0."`
	Delay       Duration          `json:"delay,omitzero" doc:"How long from now it is ready. Only one of delay and at can be given. Default: at once."`
	At          time.Time         `json:"at,omitzero" doc:"When it is ready."`
	Key         string            `json:"key,omitempty" doc:"Jobs of one key run one after the other."`
	Unique      string            `json:"unique,omitempty" doc:"While a job with the same text is not done, the job is a duplicate, and not put."`
	UniqueFor   Duration          `json:"unique_for,omitzero" doc:"How long that holds at least."`
	MaxAttempts int               `json:"max_attempts,omitempty" doc:"How often it is tried before it is dead; -1 is without end. Default: 20."`
	Lease       Duration          `json:"lease,omitzero" doc:"How long a worker has it before others get it. Default: 30s."`
	Timeout     Timeout           `json:"timeout,omitzero" doc:"How long each attempt may run before its worker is to end it: 1ms to 720h, or none. Default: as the settings say."`
	Meta        map[string]string `json:"meta,omitempty" doc:"Handed to workers as it is."`
}

// JobList is jobs to be put.
type JobList struct {
	Jobs []NewJob `json:"jobs" nullable:"false"`
}

// NewJobOf returns a job of a payload.
func NewJobOf(payload []byte, j work.Job) NewJob {
	return NewJob{
		Payload: Base64(payload), Priority: j.Priority, Delay: Duration{j.Delay}, At: j.At, Key: j.Key, Unique: j.Unique,
		UniqueFor: Duration{j.UniqueFor}, MaxAttempts: j.MaxAttempts, Lease: Duration{j.Lease}, Timeout: Timeout{j.Timeout}, Meta: j.Meta,
	}
}

// Job returns how it is put.
func (j *NewJob) Job() work.Job {
	return work.Job{
		Priority: j.Priority, Delay: j.Delay.Duration, At: j.At, Key: j.Key, Unique: j.Unique, UniqueFor: j.UniqueFor.Duration,
		MaxAttempts: j.MaxAttempts, Lease: j.Lease.Duration, Timeout: j.Timeout.Duration, Meta: j.Meta,
	}
}

// Added is what has become of items or jobs.
type Added struct {
	Added      int       `json:"added" doc:"How many are durable, duplicates of unique jobs not counted."`
	IDs        []work.ID `json:"ids,omitempty" doc:"The ids of jobs, in their order, unless they are more than 100000. A duplicate has the id of the job that is there."`
	Duplicates int       `json:"duplicates,omitempty" doc:"How many jobs were duplicates of unique ones."`
}

// LeasedJob is a job that a worker has got.
type LeasedJob struct {
	ID    work.ID `json:"id"`
	Token string  `json:"token" doc:"The right to end the lease: what the verbs of the job ask for."`
	Payload
	Priority int64             `json:"priority"`
	Attempt  int               `json:"attempt" doc:"The first is 1."`
	Created  time.Time         `json:"created"`
	Deadline time.Time         `json:"deadline" doc:"When others get the job."`
	Lease    Duration          `json:"lease" doc:"How long from now that is, whatever the clocks say."`
	Timeout  Duration          `json:"timeout,omitzero" doc:"How long the attempt may run; then the worker is to end it, and to fail it with the reason \"timed out\". The server does not see to that."`
	Took     Duration          `json:"took,omitzero" doc:"How long the request took until then: lease is over that much and lease after it came in."`
	Key      string            `json:"key,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	Failures []work.Failure    `json:"failures,omitempty" doc:"Of earlier attempts, the last few, oldest first."`
}

// LeasedList is what was reserved.
type LeasedList struct {
	Jobs []LeasedJob `json:"jobs" nullable:"false"`
}

// Token is a part of what asks for something that only the holder of a lease may do.
type Token struct {
	Token string `json:"token" maxLength:"100" doc:"Of the lease, as reserve has given it."`
}

// Secret returns the token.
func (t Token) Secret() string { return t.Token }

// Held is jobs to be acknowledged.
type Held struct {
	Jobs []HeldJob `json:"jobs" maxItems:"1000" nullable:"false"`
}

// HeldJob is one of Held.
type HeldJob struct {
	ID work.ID `json:"id"`
	Token
}

// Acked is what was acknowledged.
type Acked struct {
	Acked int       `json:"acked" doc:"How many jobs are done."`
	Lost  []work.ID `json:"lost" nullable:"false" doc:"Those whose leases were over."`
}

// Ack ends a lease: its job is done.
type Ack struct {
	Token
	Result *Payload `json:"result,omitempty" doc:"Kept as long as the job is."`
}

// Extend has a lease be longer.
type Extend struct {
	Token
	Lease Duration `json:"lease,omitzero" doc:"How long to have it, from now. Default: as long as at first."`
}

// Extended is a lease that is longer now.
type Extended struct {
	Deadline  time.Time `json:"deadline"`
	Cancelled bool      `json:"cancelled" doc:"Somebody has cancelled the job: it dies when the lease ends, unless it is acknowledged."`
}

// Recalls is of which jobs the leases were recalled.
type Recalls struct {
	Next int64     `json:"next" doc:"What to pass as after the next time."`
	Jobs []work.ID `json:"jobs" nullable:"false"`
	All  bool      `json:"all,omitempty" doc:"It is not known which: look after each."`
}

// Release gives a job back.
type Release struct {
	Token
	Delay    Duration `json:"delay,omitzero" doc:"How long until it is ready again. Default: at once."`
	Priority *int64   `json:"priority,omitempty" doc:"Default: the one that it has."`
}

// Fail ends an attempt with an error.
type Fail struct {
	Token
	Delay  *Duration `json:"delay,omitempty" doc:"How long until it is tried again. Default: attempt^4 seconds, up to a day."`
	Reason string    `json:"reason,omitempty" doc:"Kept with the job, up to 2048 bytes."`
}

// Bury makes a job dead.
type Bury struct {
	Token  string `json:"token,omitempty" maxLength:"100" doc:"Of the lease. Without it the job is buried whoever has it, which needs the scope admin."`
	Reason string `json:"reason,omitempty"`
}

// Reprioritise gives a job another priority.
type Reprioritise struct {
	Priority int64 `json:"priority" doc:"Its place is behind those that have it."`
}

// JobInfo is all that there is to know of a job.
type JobInfo struct {
	ID    work.ID `json:"id"`
	State string  `json:"state" enum:"ready,scheduled,leased,blocked,dead,done"`
	Payload
	Priority    int64             `json:"priority"`
	Attempts    int               `json:"attempts" doc:"How many have begun."`
	MaxAttempts int               `json:"max_attempts" doc:"0 is without end."`
	Created     time.Time         `json:"created"`
	Time        time.Time         `json:"time,omitzero" doc:"When it is ready, its lease is over, it died, or is forgotten."`
	Key         string            `json:"key,omitempty"`
	Unique      string            `json:"unique,omitempty"`
	Holder      string            `json:"holder,omitempty" doc:"Of its last lease."`
	Timeout     Duration          `json:"timeout,omitzero" doc:"How long each attempt may run."`
	Cancelled   bool              `json:"cancelled,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Failures    []work.Failure    `json:"failures,omitempty" doc:"The last few, oldest first."`
	History     JobHistory        `json:"history,omitzero"`
	Result      *Payload          `json:"result,omitempty" doc:"What it was acknowledged with, while it is kept."`
}

// JobHistory is what has happened to a job.
type JobHistory struct {
	Delay    Duration `json:"delay,omitzero" doc:"That it was put or released with last."`
	Releases int      `json:"releases,omitempty" doc:"Attempts that ended so do not count."`
	Expiries int      `json:"expiries,omitempty" doc:"Leases that ran out."`
	Buries   int      `json:"buries,omitempty" doc:"How often it died."`
	Kicks    int      `json:"kicks,omitempty"`
}

// JobPage is some of the jobs that match a filter.
type JobPage struct {
	Jobs []JobInfo `json:"jobs" nullable:"false"`
	Next Place     `json:"next,omitzero" doc:"What to give as after for the next page. A page may be empty and still have it. It is not there at the end."`
}

// InfoOf returns what is known of a job beside its payload.
func InfoOf(i *work.Info[[]byte]) JobInfo {
	h := i.History
	return JobInfo{
		ID: i.ID, State: i.State.String(), Priority: i.Priority, Attempts: i.Attempts, MaxAttempts: i.MaxAttempts, Created: i.Created,
		Time: i.Time, Key: i.Key, Unique: i.Unique, Holder: i.Holder, Cancelled: i.Cancelled, Meta: i.Meta, Failures: i.Failures, Timeout: Duration{i.Timeout},
		History: JobHistory{Duration{h.Delay}, h.Releases, h.Expiries, h.Buries, h.Kicks},
	}
}

// Filter says which jobs.
type Filter struct {
	State       string `query:"state" json:"state,omitempty" enum:"ready,scheduled,leased,blocked,dead,done" doc:"Default: any."`
	Key         string `query:"key" json:"key,omitempty" doc:"Default: any."`
	Contains    string `query:"contains" json:"contains,omitempty" doc:"A text in the payload or the error of an attempt. Default: any."`
	MinAttempts int    `query:"min_attempts" json:"min_attempts,omitempty" doc:"Default: any number."`
	Holder      string `query:"holder" json:"holder,omitempty" doc:"Of its last lease. Default: any."`

	Before  time.Time `query:"before" json:"before,omitzero" doc:"It was put before that time. Default: at any time."`
	Reverse bool      `query:"reverse" json:"reverse,omitempty" doc:"Begin with the last one."`
}

// FilterOf is the reverse of Filter.Filter.
func FilterOf(f work.Filter) Filter {
	filter := Filter{Key: f.Key, Contains: f.Contains, MinAttempts: f.MinAttempts, Holder: f.Holder, Before: f.Before.UTC(), Reverse: f.Reverse}
	if f.State != 0 {
		filter.State = f.State.String()
	}
	return filter
}

// Filter returns the filter as package work has it.
func (f Filter) Filter() (w work.Filter, err error) {
	w = work.Filter{Key: f.Key, Contains: f.Contains, MinAttempts: f.MinAttempts, Holder: f.Holder, Before: f.Before, Reverse: f.Reverse}
	if f.State != "" {
		w.State, err = work.ParseState(f.State)
	}
	return w, err
}

// Task is a change of many jobs, in the background.
type Task struct {
	ID    string    `json:"id"`
	What  string    `json:"what"`
	By    string    `json:"by"`
	State string    `json:"state" enum:"running,done,failed,stopped"`
	Total int64     `json:"total" doc:"About how many jobs there are at most, counted when it began; -1 if that is not known."`
	Done  int64     `json:"done" doc:"How many it has changed."`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	Error string    `json:"error,omitempty"`
}

// Bulk begins a Task.
type Bulk struct {
	Do string `json:"do" enum:"retry,kick,delete,cancel,bury,reprioritise,end-leases,count" doc:"What to do to each job. Retry is kick for dead jobs only; count changes nothing."`
	Filter
	All      bool   `json:"all,omitempty" doc:"It has to be true if there is no condition, so that all jobs are meant."`
	Priority int64  `json:"priority,omitempty" doc:"Of reprioritise."`
	Reason   string `json:"reason,omitempty" doc:"Of bury. Default: buried by an operator."`
}

// Periodic is a job that is put again and again.
type Periodic struct {
	Name    string    `json:"name"`
	Cron    string    `json:"cron"`
	Next    time.Time `json:"next"`
	MaxLate Duration  `json:"max_late,omitzero"`
	Overlap string    `json:"overlap" enum:"run,skip,replace"`
	Unique  string    `json:"unique,omitempty"`
	Trouble string    `json:"trouble,omitempty" doc:"Why it is not due as it should be: its time zone is not known to the server, or a clock was far ahead as next was set."`
	Payload
}

// PeriodicList is those of a queue.
type PeriodicList struct {
	Periodic []Periodic `json:"periodic" nullable:"false"`
}

// Every has a job be put again and again.
type Every struct {
	Payload
	Cron        string   `json:"cron" maxLength:"1024" doc:"Minute, hour, day of month, month, day of week (0 and 7 are Sunday); or as @every 90s, @hourly, @daily. CRON_TZ=Europe/Berlin in front names a time zone."`
	Priority    int64    `json:"priority,omitempty"`
	Key         string   `json:"key,omitempty" doc:"Jobs of one key run one after the other."`
	MaxAttempts int      `json:"max_attempts,omitempty"`
	Lease       Duration `json:"lease,omitzero"`
	Timeout     Timeout  `json:"timeout,omitzero" doc:"How long each attempt may run before its worker is to end it: 1ms to 720h, or none. Default: as the settings say."`
	Unique      string   `json:"unique,omitempty" doc:"While a job with the same text is not done, a tick makes none."`
	UniqueFor   Duration `json:"unique_for,omitzero" doc:"How long that holds at least."`
	Overlap     string   `json:"overlap,omitempty" enum:"run,skip,replace" doc:"What a tick does while the job of the last one is neither done nor dead: run makes one more, skip makes none, replace deletes it, or cancels it if it is leased, and makes one. Replace can't have a unique text. Default: run."`

	Meta    map[string]string `json:"meta,omitempty" doc:"Handed to workers as it is."`
	MaxLate Duration          `json:"max_late,omitzero" doc:"How late a tick is made up that passed while no worker ran. Default: any time."`
}

// EveryOf returns how a payload is put periodically.
func EveryOf(payload []byte, cron string, o work.EveryOptions) Every {
	return Every{
		Payload: Base64(payload), Cron: cron, Priority: o.Priority, Key: o.Key, MaxAttempts: o.MaxAttempts, Lease: Duration{o.Lease}, Timeout: Timeout{o.Timeout},
		Unique: o.Unique, UniqueFor: Duration{o.UniqueFor}, Overlap: o.Overlap.String(), Meta: o.Meta, MaxLate: Duration{o.MaxLate},
	}
}

// Options returns how that is.
func (e *Every) Options() (o work.EveryOptions, err error) {
	o = work.EveryOptions{MaxLate: e.MaxLate.Duration, Job: work.Job{
		Priority: e.Priority, Key: e.Key, MaxAttempts: e.MaxAttempts, Lease: e.Lease.Duration, Timeout: e.Timeout.Duration,
		Unique: e.Unique, UniqueFor: e.UniqueFor.Duration, Meta: e.Meta,
	}}
	if e.Overlap != "" {
		o.Overlap, err = work.ParseOverlap(e.Overlap)
	}
	return o, err
}

// Ran is the job that a periodic one was put as, now.
type Ran struct {
	ID work.ID `json:"id" doc:"Of the job."`
}
