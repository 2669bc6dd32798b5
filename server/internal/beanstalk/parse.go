package beanstalk

import (
	"bytes"
	"errors"
	"math"
	"time"
)

// Bounds of the protocol.
const (
	maxLine = 224 // with its CR-LF
	maxName = 200
)

// Errors of parsing, which are the replies.
var (
	errBadFormat      = errors.New("BAD_FORMAT")
	errUnknownCommand = errors.New("UNKNOWN_COMMAND")
)

// command is what a line asks for. Which fields are set depends on op.
type command struct {
	op       op
	tube     string
	id       uint64
	priority uint32
	delay    time.Duration // of put, release, pause-tube
	ttr      time.Duration
	n        uint32 // bytes of put, bound of kick
	timeout  time.Duration
}

// op is what a command does.
type op int

const (
	opPut op = iota
	opPeek
	opPeekReady
	opPeekDelayed
	opPeekBuried
	opReserve
	opReserveTimeout
	opReserveJob
	opDelete
	opRelease
	opUse
	opWatch
	opIgnore
	opBury
	opKick
	opKickJob
	opTouch
	opStats
	opStatsJob
	opStatsTube
	opListTubes
	opListTubeUsed
	opListTubesWatched
	opPauseTube
	opQuit
	ops // how many
)

// arguments is how the arguments of a command are parsed, or nil if it has none.
type arguments func(c *command, args *fields)

// syntax is a command's word, and what follows it.
type syntax struct {
	op    op
	parse arguments
}

var commands = map[string]syntax{
	"put": {opPut, func(c *command, f *fields) {
		c.priority, c.delay, c.ttr, c.n = f.u32(), f.seconds(), f.seconds(), f.u32()
		c.ttr = max(c.ttr, time.Second)
	}},
	"use":                  {opUse, tubeOnly},
	"reserve":              {opReserve, nil},
	"reserve-with-timeout": {opReserveTimeout, func(c *command, f *fields) { c.timeout = f.seconds() }},
	"reserve-job":          {opReserveJob, idOnly},
	"delete":               {opDelete, idOnly},
	"release": {opRelease, func(c *command, f *fields) {
		c.id, c.priority, c.delay = f.u64(), f.u32(), f.seconds()
	}},
	"bury":               {opBury, func(c *command, f *fields) { c.id, c.priority = f.u64(), f.u32() }},
	"touch":              {opTouch, idOnly},
	"watch":              {opWatch, tubeOnly},
	"ignore":             {opIgnore, tubeOnly},
	"peek":               {opPeek, idOnly},
	"peek-ready":         {opPeekReady, nil},
	"peek-delayed":       {opPeekDelayed, nil},
	"peek-buried":        {opPeekBuried, nil},
	"kick":               {opKick, func(c *command, f *fields) { c.n = f.u32() }},
	"kick-job":           {opKickJob, idOnly},
	"stats":              {opStats, nil},
	"stats-job":          {opStatsJob, idOnly},
	"stats-tube":         {opStatsTube, tubeOnly},
	"list-tubes":         {opListTubes, nil},
	"list-tube-used":     {opListTubeUsed, nil},
	"list-tubes-watched": {opListTubesWatched, nil},
	"pause-tube":         {opPauseTube, func(c *command, f *fields) { c.tube, c.delay = f.name(), f.seconds() }},
	"quit":               {opQuit, nil},
}

func idOnly(c *command, f *fields)   { c.id = f.u64() }
func tubeOnly(c *command, f *fields) { c.tube = f.name() }

// parse reads a line, without its CR-LF.
func parse(line []byte) (c command, err error) {
	if len(line)+2 > maxLine || bytes.IndexByte(line, 0) >= 0 {
		return c, errBadFormat
	}
	word, rest, hasRest := bytes.Cut(line, []byte(" "))
	s, known := commands[string(word)]
	switch {
	case bytes.HasPrefix(line, []byte("quit")):
		return command{op: opQuit}, nil
	case !known || s.parse != nil && !hasRest: // the space belongs to the command
		return c, misspelt(line)
	case s.parse == nil && hasRest:
		return c, errBadFormat
	}
	c.op = s.op
	if s.parse == nil {
		return c, nil
	}
	f := fields{rest: rest}
	s.parse(&c, &f)
	if f.bad || len(f.rest) > 0 {
		return c, errBadFormat
	}
	return c, nil
}

// misspelt returns the reply to what begins with no command. As beanstalkd has it, more than a command without arguments
// is a bad format of that.
func misspelt(line []byte) error {
	for word, s := range commands {
		if (s.parse == nil || s.op == opPauseTube) && bytes.HasPrefix(line, []byte(word)) {
			return errBadFormat
		}
	}
	return errUnknownCommand
}

// fields are the arguments of a command that are not read yet. Spaces before one do not count.
type fields struct {
	rest []byte
	bad  bool // one was not what it should be
}

func (f *fields) next() (field []byte) {
	f.rest = bytes.TrimLeft(f.rest, " ")
	end := bytes.IndexByte(f.rest, ' ')
	if end < 0 {
		end = len(f.rest)
	}
	field, f.rest = f.rest[:end], f.rest[end:]
	f.bad = f.bad || len(field) == 0
	return field
}

func (f *fields) u64() (n uint64) {
	for _, b := range f.next() {
		d := uint64(b - '0')
		if d > 9 || n > math.MaxUint64/10 || n*10 > math.MaxUint64-d {
			f.bad = true
			return 0
		}
		n = n*10 + d
	}
	return n
}

func (f *fields) u32() uint32 {
	n := f.u64()
	f.bad = f.bad || n > math.MaxUint32
	return uint32(n)
}

func (f *fields) seconds() time.Duration { return time.Duration(f.u32()) * time.Second }

func (f *fields) name() string {
	name := f.next()
	if len(name) > maxName || len(name) > 0 && name[0] == '-' {
		f.bad = true
	}
	for _, b := range name {
		if !inName[b] {
			f.bad = true
		}
	}
	return string(name)
}

// inName is which bytes a tube's name may have.
var inName = func() (in [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()") {
		in[b] = true
	}
	return in
}()
