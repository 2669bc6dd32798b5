module github.com/conq-go/conq/test/beanstalk

go 1.26.0

require (
	github.com/beanstalkd/go-beanstalk v0.2.0
	go.uber.org/goleak v1.3.0
)
