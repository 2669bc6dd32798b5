// Package version says which build of conq this is: for the command, the server's pages and metrics, and the client. It imports
// nothing of the module.
package version

import (
	"cmp"
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/conq-go/conq"

// unknown is the version of a build that has none: of go run, or of go build outside of a repository.
const unknown = "(devel)"

// What a release is told when it is linked, as its build does not look at the repository:
//
//	go build -buildvcs=false -ldflags "-X github.com/conq-go/conq/internal/version.told=v1.2.3"
var told, toldRevision, toldTime string

// Build is a build of conq.
type Build struct {
	Version  string // as v1.2.3, or (devel) if nothing is known
	Revision string // of the repository; "" if it is not known
	Time     string // of the revision, in RFC 3339; "" if it is not known
	Modified bool   // there were changes that are in no revision
	Go       string // version of the toolchain
}

// Read returns the build that runs.
var Read = sync.OnceValue(func() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(info, Build{Version: told, Revision: toldRevision, Time: toldTime})
})

// of returns the build of the module in a program, which may be another's that imports it, with what is told of it.
func of(info *debug.BuildInfo, b Build) Build {
	b.Go = info.GoVersion
	if info.Main.Path == module {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = cmp.Or(b.Revision, s.Value)
			case "vcs.time":
				b.Time = cmp.Or(b.Time, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	for _, m := range info.Deps {
		if m.Path == module {
			b.Version = cmp.Or(b.Version, m.Version)
		}
	}
	b.Version = cmp.Or(b.Version, unknown)
	return b
}

// String returns the version, with the revision if the version does not tell it.
func (b Build) String() string {
	if b.Version != unknown || b.Revision == "" {
		return b.Version
	}
	s := b.Version + " " + b.Revision[:min(len(b.Revision), 12)]
	if b.Modified {
		s += "+dirty"
	}
	return strings.TrimSpace(s + " " + b.Time)
}

// Product returns the version as it stands in a User-Agent.
func (b Build) Product() string { return "conq/" + strings.Trim(b.Version, "()") }
