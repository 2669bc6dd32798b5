package demo

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Work is what a worker process does: for each line with a payload, in base64, it writes one with its SHA-256.
func Work(r io.Reader, w io.Writer) error {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		payload, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
		if err != nil {
			return fmt.Errorf("a line that is not base64: %w", err)
		}
		if _, err := io.WriteString(w, sum(payload)+"\n"); err != nil {
			return err
		}
	}
}

func sum(payload []byte) string {
	s := sha256.Sum256(payload)
	return hex.EncodeToString(s[:])
}

// worker is a process that runs Work.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startWorker(cmd *exec.Cmd) (*worker, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker process: %w", err)
	}
	return &worker{cmd, in, bufio.NewReader(out)}, nil
}

// send has the worker begin a job.
func (w *worker) send(payload []byte) error {
	_, err := io.WriteString(w.in, base64.StdEncoding.EncodeToString(payload)+"\n")
	return err
}

// do has the worker do a job.
func (w *worker) do(ctx context.Context, payload []byte) error {
	err := w.send(payload)
	var line string
	if err == nil {
		line, err = w.out.ReadString('\n')
	}
	switch {
	case ctx.Err() != nil: // an interrupt of the terminal ends workers, too
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("a worker process has ended by itself: %w", err)
	case strings.TrimSpace(line) != sum(payload):
		return fmt.Errorf("a worker process has answered %.80q", line)
	}
	return nil
}

// kill ends the process at once.
func (w *worker) kill() error {
	err := w.cmd.Process.Kill()
	_ = w.cmd.Wait() // it was killed
	return err
}

// end ends the process when it has done what it was told.
func (w *worker) end(ctx context.Context) error {
	w.in.Close()
	if err := w.cmd.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("a worker process: %w", err)
	}
	return nil
}
