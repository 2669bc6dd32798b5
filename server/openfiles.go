package server

import "math"

const (
	// usualConnections is how many connections there may be by default.
	usualConnections = 20000

	// keptFiles is how many open files are not for connections: the tables of an embedded store, up to 100, its log and what is written at
	// the moment, standard streams, listeners, and connections that are just refused.
	keptFiles = 140

	// fewestConnections is what there may be however few files can be open.
	fewestConnections = 8

	unknown = math.MaxInt64
)

// mostConnections returns how many connections there may be by default where so many files can be open.
func mostConnections(files int64) int64 {
	return max(fewestConnections, min(usualConnections, files-keptFiles))
}
