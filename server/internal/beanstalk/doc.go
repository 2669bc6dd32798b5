// Package beanstalk serves work queues by the protocol of beanstalkd 1.12.
//
// A tube is the work queue of its name, ttr is the lease of a job, and a buried job is a dead one. What a connection has
// reserved it holds until its end; then its jobs are given back. Each verb is one of package work, so that connections
// share transactions, and a job is as durable as the store promises before its client reads INSERTED.
//
// Each connection has a goroutine, and one more while it waits for a job, which notices that the client goes.
// docs/beanstalkd.md says where this server differs from beanstalkd.
package beanstalk
