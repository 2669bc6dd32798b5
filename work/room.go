package work

import "github.com/conq-go/conq/internal/budget"

func (e *engine) callsPerTransaction() int { return budget.Of(e.limits).Times(operations, maxCalls) }

func (e *engine) bytesPerTransaction() int { return min(maxBytes, budget.Of(e.limits).Bytes) }
