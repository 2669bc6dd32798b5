package embedded

import "fmt"

// pebbleLogger passes Pebble's messages on and keeps its fatal ones from ending
// the process.
type pebbleLogger struct{ db *DB }

func (l pebbleLogger) Infof(string, ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.db.log.Error("pebble", "message", fmt.Sprintf(format, args...))
}

// Fatalf must not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = cause // what it is matters more than what it kept from being done
		}
	}
	l.db.guard.Fatal(err, l.db.maim)
}
