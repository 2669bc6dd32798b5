package load

import "github.com/conq-go/conq/internal/measure"

// Report is what came out.
type Report struct {
	Settings
	// Interrupted tells that the context ended before all phases did.
	Interrupted bool     `json:"interrupted"`
	Phases      []Result `json:"phases"`
}

// Result is what came out of one phase.
type Result struct {
	Name    Phase   `json:"name"`
	Seconds float64 `json:"seconds"`
	Put     Calls   `json:"put"`
	Take    Calls   `json:"take"`
	// Transactions are all attempts, those included that met a conflict.
	Transactions int `json:"transactions"`
	Conflicts    int `json:"conflicts"`
	// The same for each item that went in or out.
	TransactionsPerItem float64 `json:"transactions_per_item"`
	ConflictsPerItem    float64 `json:"conflicts_per_item"`
	Staging             Staged  `json:"staging"`
}

// Calls are the calls of one kind that moved an item.
type Calls struct {
	measure.Calls
	Batch float64 `json:"batch"` // items a transaction that moved any
}

// Staged is what was done by staged requests.
type Staged struct {
	Requests    int     `json:"requests"`
	Fulfilments int     `json:"fulfilments"` // transactions that served requests
	Served      float64 `json:"served"`      // requests in each of them
	Expired     int     `json:"expired"`     // results that nobody collected in time
}

// result puts together what the phase has measured.
func (w *phaseWork) result() Result {
	put, take := w.meter.Calls(w.run.handles[0].verbs())
	s := w.spent
	r := Result{
		Name: w.phase, Seconds: w.meter.Took().Seconds(),
		Put: Calls{put, s.added.average()}, Take: Calls{take, s.taken.average()},
		Transactions: s.transactions, Conflicts: s.conflicts,
		Staging: Staged{s.requested.times, s.fulfilled.times, s.fulfilled.average(), s.expired.sum},
	}
	moved := float64(r.Put.Count + r.Take.Count)
	r.TransactionsPerItem = measure.Ratio(float64(r.Transactions), moved)
	r.ConflictsPerItem = measure.Ratio(float64(r.Conflicts), moved)
	return r
}
