// Package cron says when cron expressions are due.
//
// A schedule is due at each minute whose wall clock time in its zone matches the expression. So a time that is left out as
// clocks are put forward is not due that day, and one that comes twice as they are put back is due twice, whatever the zone
// does: also where midnight is left out, or clocks change by half an hour.
//
// The zone data of Go's time/tzdata is linked, for machines that have none.
package cron
