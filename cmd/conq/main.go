// Command conq keeps durable, transactional FIFO queues and priority queues. See
// package internal/cli, or conq --help.
package main

import (
	"os"

	"github.com/conq-go/conq/internal/cli"
)

func main() { os.Exit(cli.Main()) }
