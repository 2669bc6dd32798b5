package load

// Report is what came out.
type Report struct {
	Settings
	// Interrupted tells that the context ended before all phases did.
	Interrupted bool     `json:"interrupted"`
	Phases      []Result `json:"phases"`
}

// Result is what came out of one phase.
type Result struct {
	Name    Phase      `json:"name"`
	Seconds float64    `json:"seconds"`
	Put     PhaseCalls `json:"put"`
	Take    PhaseCalls `json:"take"`
	// Transactions are all attempts, those included that met a conflict.
	Transactions int `json:"transactions"`
	Conflicts    int `json:"conflicts"`
	// The same for each item that went in or out.
	TransactionsPerItem float64 `json:"transactions_per_item"`
	ConflictsPerItem    float64 `json:"conflicts_per_item"`
	// Verbs are the transactions and conflicts of each verb. One that serves two verbs is in both. What no verb has done
	// is under "other": waiting for news, looking at what finds nothing, staged requests.
	Verbs   map[string]Attempts `json:"verbs"`
	Staging Staged              `json:"staging"`
}

// Attempts are attempts of transactions.
type Attempts struct {
	Transactions int `json:"transactions"` // all of them
	Conflicts    int `json:"conflicts"`    // those that had to be made again
}

// PhaseCalls are the calls of one kind that moved an item.
type PhaseCalls struct {
	Calls
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
		Put: PhaseCalls{put, s.added.average()}, Take: PhaseCalls{take, s.taken.average()},
		Transactions: s.transactions, Conflicts: s.conflicts,
		Verbs:   s.verbsAndOther(),
		Staging: Staged{s.requested.times, s.fulfilled.times, s.fulfilled.average(), s.expired.sum},
	}
	moved := float64(r.Put.Count + r.Take.Count)
	r.TransactionsPerItem = Ratio(float64(r.Transactions), moved)
	r.ConflictsPerItem = Ratio(float64(r.Conflicts), moved)
	return r
}

// verbsAndOther returns what each verb has made of all transactions.
func (c *counts) verbsAndOther() map[string]Attempts {
	all, other := make(map[string]Attempts), Attempts{c.transactions, c.conflicts}
	for verb, a := range c.verbs {
		all[verb] = a
		other.Transactions -= a.Transactions
		other.Conflicts -= a.Conflicts
	}
	if other.Transactions > 0 || other.Conflicts > 0 {
		all["other"] = Attempts{max(0, other.Transactions), max(0, other.Conflicts)}
	}
	return all
}
