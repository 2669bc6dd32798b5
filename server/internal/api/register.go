package api

import (
	"net/http"
	"strings"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/danielgtaylor/huma/v2"
)

// request describes one. What stands behind its summary says more.
func request(scope access.Scope, id, method, path, summary string, more ...string) operation {
	return operation{huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Description: strings.Join(more, "")}, scope}
}

const (
	get   = http.MethodGet
	post  = http.MethodPost
	patch = http.MethodPatch

	free     = access.Scope("") // each queue is checked by itself
	watching = access.Watch
	produce  = access.Produce
	consume  = access.Consume
	admin    = access.Admin
)

func (a *api) registerQueues() {
	const queue = "/v1/queues/{q}"
	add(a, request(free, "list-queues", get, "/v1/queues", "List the queues that the caller may see"), a.listQueues)
	add(a, request(watching, "get-queue", get, queue, "Look at a queue"), a.getQueue)
	register(a, request(produce, "make-queue", http.MethodPut, queue, "Make a queue",
		"Queues are also made by what is added to them. It does nothing if there is one of that kind."), a.makeQueue)
	register(a, request(admin, "delete-queue", http.MethodDelete, queue, "Delete a queue",
		"All of it goes: items, jobs, periodic jobs, settings. Workers have lost their leases. What is added under the name later makes a new queue."), a.deleteQueue)
	register(a, request(admin, "purge-queue", post, queue+"/purge", "Remove all items or jobs",
		"The queue itself stays, empty. Workers have lost their leases."), a.purge)
	add(a, request(consume, "move-items", post, "/v1/move", "Move items from one queue to another, in one transaction"), a.move)
	events := request(free, "watch-queues", get, "/v1/events", "Server-sent events: all queues, once a second",
		"Each event is called queues, and its data is one JSON document.")
	events.Responses = responses("A stream of events", mediaTypes{"text/event-stream": a.mediaOf(event{})})
	add(a, events, a.events)
}

func (a *api) registerItems() {
	items := mediaTypes{typeJSON: a.mediaOf(wire.ItemList{}), typeNDJSON: a.mediaOf(wire.Item{}), typeBytes: binary()}
	const path = "/v1/queues/{q}/items"
	op := request(produce, "add-items", post, path, "Enqueue or push one item or many", adding+
		"The queue is made if there is none: a priority queue, if the first item has a priority.")
	op.Responses = responses("What was added", mediaTypes{typeJSON: a.mediaOf(wire.Added{})})
	add(a, op, a.addItems)
	a.describeAdding(path, wire.ItemList{}, wire.Item{})
	op = request(consume, "take-items", post, "/v1/queues/{q}/take", "Dequeue or pop", taking)
	op.Responses = responses("The items that were taken, perhaps none. Of one as bytes, Conq-Priority has the priority", items)
	add(a, op, a.take)
	add(a, request(consume, "peek-items", get, path, "Look at items, a page at a time"), a.peek)
}

const adding = `A JSON body, a list or one alone, and a body of bytes are one transaction. NDJSON is stored in batches, of 1000 or 1 MiB at most, each of which is one; an error ` +
	`in the middle says in added how many are durable. `

const taking = `Takes the first items, and waits for one if told to. A client that goes away while it waits takes nothing. When the answer gets lost, ` +
	`the items are lost: what must not be belongs into a work queue.`

func (a *api) registerJobs() {
	jobs := mediaTypes{typeJSON: a.mediaOf(wire.LeasedList{}), typeNDJSON: a.mediaOf(wire.LeasedJob{}), typeBytes: binary()}
	const path, job = "/v1/jobs/{q}", "/v1/jobs/{q}/{id}"
	op := request(produce, "put-jobs", post, path, "Put one job or many", adding+"The work queue is made if there is none.")
	op.Responses = responses("What was put", mediaTypes{typeJSON: a.mediaOf(wire.Added{})})
	add(a, op, a.putJobs)
	a.describeAdding(path, wire.JobList{}, wire.NewJob{})
	op = request(consume, "reserve-jobs", post, path+"/reserve", "Lease the first ready jobs",
		"Each comes back when its lease is over, unless one of ack, release, fail and bury has ended that, with the token.")
	op.Responses = responses("The jobs, perhaps none. Of one as bytes, Conq- headers have what JSON has beside the payload", jobs)
	addWork(a, op, a.reserve)
	addWork(a, request(consume, "list-jobs", get, path, "Look at jobs, a page at a time"), a.listJobs)
	addWork(a, request(consume, "list-recalls", get, path+"/recalls", "Which leases were recalled, for those who hold some",
		"A lease is recalled when its job is cancelled, buried or deleted, or the lease ended, by another than its holder, or when it runs out. A holder extends that lease then, and is told more. ",
		"One server tells of what is done through it: of what is done elsewhere a holder learns when it extends a lease."), a.recalls)
	addWork(a, request(consume, "ack-jobs", post, path+"/ack", "End several jobs: they are done"), a.ackAll)
	addWork(a, request(consume, "get-job", get, job, "Look at a job"), a.getJob)
	addLease(a, request(consume, "ack-job", post, job+"/ack", "End a job: it is done"), a.ack)
	addWork(a, request(consume, "extend-job", post, job+"/extend", "Have the lease longer"), a.extend)
	addLease(a, request(consume, "release-job", post, job+"/release", "Give a job back", "It is ready in its old place, and the attempt does not count."), a.release)
	addLease(a, request(consume, "fail-job", post, job+"/fail", "End an attempt with an error", "The job is tried again later, or is dead after its last attempt."), a.fail)
	addVerb(a, request(consume, "bury-job", post, job+"/bury", "Make a job dead", "It is not tried again until somebody kicks it."), a.bury)
}

func (a *api) registerOperators() {
	const path, job, periodic = "/v1/jobs/{q}", "/v1/jobs/{q}/{id}", "/v1/jobs/{q}/periodic/{name}"
	a.addJobVerb("kick", request(admin, "kick-job", post, job+"/kick", "Make a dead or scheduled job ready now"), (*queues.Work).Kick)
	a.addJobVerb("cancel", request(admin, "cancel-job", post, job+"/cancel", "Make a job dead", "One that is leased may still be acknowledged."), (*queues.Work).Cancel)
	a.addJobVerb("end lease", request(admin, "end-lease", post, job+"/end-lease", "End the lease of a job as if it had expired", "The job is ready again, or dead if this was its last attempt."), (*queues.Work).EndLease)
	addOperator(a, "reprioritise", request(admin, "change-job", patch, job, "Give a job another priority"), a.patchJob)
	a.addJobVerb("delete", request(admin, "delete-job", http.MethodDelete, job, "Remove a job", "A worker that holds it has lost its lease."), (*queues.Work).Delete)
	const bulk = path + "/bulk"
	start := request(admin, "start-bulk", post, bulk, "Change all jobs that match, in the background",
		"The answer has the id of a task, which can be looked at. It is known until the server stops, or 200 others have followed.")
	start.DefaultStatus = http.StatusAccepted
	add(a, start, a.startBulk)
	add(a, request(admin, "list-bulk", get, bulk, "List the tasks of a queue, the last one first"), a.listBulk)
	add(a, request(admin, "get-bulk", get, bulk+"/{id}", "Look at a task"), a.getBulk)
	register(a, request(admin, "stop-bulk", http.MethodDelete, bulk+"/{id}", "Stop a task", "What it has done stays."), a.stopBulk)
	addOperator(a, "pause", request(admin, "pause-queue", post, path+"/pause", "Have a work queue give out nothing until it is resumed"), a.pause)
	addOperator(a, "resume", request(admin, "resume-queue", post, path+"/resume", "End a pause"), a.resume)
	const settings = path + "/settings"
	addWork(a, request(watching, "get-settings", get, settings, "Look at the settings of a work queue"), a.settings)
	add(a, request(admin, "put-settings", http.MethodPut, settings, "Set how a work queue works",
		"They are stored with the queue, and hold for all its workers at once, wherever these are. What is left out has its default. The queue is made if there is none."), a.configure)
	addWork(a, request(consume, "list-periodic", get, path+"/periodic", "List the periodic jobs"), a.periodics)
	register(a, request(admin, "put-periodic", http.MethodPut, periodic, "Have a job put at each tick of a cron expression", "One of the same name is replaced."), a.every)
	addOperator(a, "remove periodic", request(admin, "remove-periodic", http.MethodDelete, periodic, "End a periodic job"), a.removePeriodic)
	addWork(a, request(admin, "run-periodic", post, periodic+"/run", "Put a periodic job once more, now"), a.runPeriodic)
}
