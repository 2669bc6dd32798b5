package beanstalk

import (
	"bytes"
	"time"

	"github.com/conq-go/conq/work"
)

// verb is a command of the protocol.
type verb struct {
	name      string
	arguments func(c *command, f *fields) // parses them; nil if it has none
	do        func(c *conn, cmd command) error
	index     int
}

// verbs are in the order in which stats has them, and set by init as stats looks at them.
var verbs []verb

func init() {
	verbs = []verb{
		{name: "put", do: (*conn).put, arguments: func(c *command, f *fields) {
			c.priority, c.delay, c.ttr, c.n = f.u32(), f.seconds(), f.seconds(), f.u32()
			c.ttr = max(c.ttr, time.Second)
		}},
		{name: "peek", do: (*conn).peek, arguments: idOnly},
		{name: "peek-ready", do: peekFirst(work.Ready)},
		{name: "peek-delayed", do: peekFirst(work.Scheduled)},
		{name: "peek-buried", do: peekFirst(work.Dead)},
		{name: "reserve", do: func(c *conn, _ command) error { return c.reserve(-1) }},
		{name: "reserve-with-timeout", do: func(c *conn, cmd command) error { return c.reserve(cmd.timeout) },
			arguments: func(c *command, f *fields) { c.timeout = f.seconds() }},
		{name: "delete", do: (*conn).delete, arguments: idOnly},
		{name: "release", do: (*conn).releaseJob, arguments: func(c *command, f *fields) {
			c.id, c.priority, c.delay = f.u64(), f.u32(), f.seconds()
		}},
		{name: "use", do: (*conn).use, arguments: tubeOnly},
		{name: "watch", do: (*conn).watch, arguments: tubeOnly},
		{name: "ignore", do: (*conn).ignore, arguments: tubeOnly},
		{name: "bury", do: (*conn).bury, arguments: func(c *command, f *fields) { c.id, c.priority = f.u64(), f.u32() }},
		{name: "kick", do: (*conn).kick, arguments: func(c *command, f *fields) { c.n = f.u32() }},
		{name: "touch", do: (*conn).touch, arguments: idOnly},
		{name: "stats", do: (*conn).stats},
		{name: "stats-job", do: (*conn).statsJob, arguments: idOnly},
		{name: "stats-tube", do: (*conn).statsTube, arguments: tubeOnly},
		{name: "list-tubes", do: (*conn).listTubes},
		{name: "list-tube-used", do: func(c *conn, _ command) error { return c.reply("USING " + c.used.name) }},
		{name: "list-tubes-watched", do: (*conn).listWatched},
		{name: "pause-tube", do: (*conn).pauseTube, arguments: func(c *command, f *fields) { c.tube, c.delay = f.name(), f.seconds() }},
		{name: "reserve-job", do: (*conn).reserveJob, arguments: idOnly},
		{name: "kick-job", do: (*conn).kickJob, arguments: idOnly},
		{name: "quit", do: func(c *conn, _ command) error { return c.breakOff(errQuit) }},
	}
	for i := range verbs {
		verbs[i].index = i
		byName[verbs[i].name] = &verbs[i]
	}
}

var byName = make(map[string]*verb)

// uncounted are the verbs at the end of which stats says nothing.
const uncounted = 3

func idOnly(c *command, f *fields) { c.id = f.u64() }

func tubeOnly(c *command, f *fields) {
	f.bad = bytes.HasPrefix(f.rest, []byte(" ")) // the name would begin with it
	c.tube = f.name()
}
