package beanstalk

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
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

// command is what a line asks for. Which fields are set depends on the verb.
type command struct {
	*verb
	tube     string
	id       uint64
	priority uint32
	delay    time.Duration // of put, release, pause-tube
	ttr      time.Duration
	n        uint32 // bytes of put, bound of kick
	timeout  time.Duration
}

// parse reads a line, without its CR-LF.
func parse(line []byte) (c command, err error) {
	if len(line)+2 > maxLine || bytes.IndexByte(line, 0) >= 0 {
		return c, errBadFormat
	}
	word, rest, hasRest := bytes.Cut(line, []byte(" "))
	v := byName[string(word)]
	switch {
	case bytes.HasPrefix(line, []byte("quit")):
		return command{verb: byName["quit"]}, nil
	case v == nil || v.arguments != nil && !hasRest: // the space belongs to the command
		return c, misspelt(line)
	case v.arguments == nil && hasRest:
		return c, errBadFormat
	}
	c.verb = v
	if v.arguments == nil {
		return c, nil
	}
	f := fields{rest: rest}
	v.arguments(&c, &f)
	if f.bad || len(f.rest) > 0 {
		return c, errBadFormat
	}
	return c, nil
}

// misspelt returns the reply to what begins with no command. As beanstalkd has it, more than a command without arguments
// is a bad format of that.
func misspelt(line []byte) error {
	for word, v := range byName {
		if (v.arguments == nil || word == "pause-tube") && bytes.HasPrefix(line, []byte(word)) {
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

func (f *fields) number(bits int) uint64 {
	n, err := strconv.ParseUint(string(f.next()), 10, bits)
	f.bad = f.bad || err != nil
	return n
}

func (f *fields) u64() uint64 { return f.number(64) }

func (f *fields) u32() uint32 { return uint32(f.number(32)) }

func (f *fields) seconds() time.Duration { return time.Duration(f.u32()) * time.Second }

func (f *fields) name() string {
	name := string(f.next())
	foreign := strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()")
	f.bad = f.bad || len(name) > maxName || strings.HasPrefix(name, "-") || foreign != ""
	return name
}
