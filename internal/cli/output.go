package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// output is standard output. Its errors are told from all others.
type output struct{ w io.Writer }

func (a *app) output() output { return output{a.stdout} }

func (o output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		err = &outputError{err}
	}
	return n, err
}

// countingWriter counts what is written.
type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += n
	return n, err
}

// printFlags say how items are printed.
type printFlags struct {
	null, priority bool
}

func (p *printFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&p.null, "null", "0", false, "end items with NUL instead of a line end")
}

// sink prints items. Nothing is out before flush returns.
type sink struct {
	w     *bufio.Writer
	out   *countingWriter // what w writes to
	file  any             // what is synced, if it is a file
	flags printFlags
	json  bool
	raw   bool // items are JSON documents
}

func (a *app) sink(flags printFlags) *sink {
	out := &countingWriter{w: a.output()}
	return &sink{w: bufio.NewWriterSize(out, 64<<10), out: out, file: a.stdout, flags: flags, json: a.json, raw: a.codec == "json"}
}

// add prints an item. Once a write has failed, each call fails.
func (s *sink) add(it item) error {
	if s.json {
		s.w.Write(s.encode(it))
	} else {
		if s.flags.priority {
			s.w.WriteString(strconv.FormatInt(it.Priority, 10) + "\t")
		}
		s.w.Write(it.Value)
	}
	return s.w.WriteByte(separator(s.flags.null))
}

// added returns how many bytes were added, if no write has failed.
func (s *sink) added() int { return s.out.n + s.w.Buffered() }

// flush hands on what was added: to the disk if it goes to a file, so that what
// is then removed from the store is safe.
func (s *sink) flush() error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	return synced(s.file)
}

// synced makes sure that what was written to standard output is on the disk, if it is a file.
func synced(stream any) error {
	if f, _ := regular(stream); f != nil {
		if err := f.Sync(); err != nil {
			return &outputError{err}
		}
	}
	return nil
}

// document is an item with --json.
type document struct {
	Priority *int64 `json:"priority,omitempty"`
	Value    any    `json:"value"`
	Encoding string `json:"encoding,omitempty"`
}

func (s *sink) encode(it item) []byte {
	var doc document
	if s.flags.priority {
		doc.Priority = &it.Priority
	}
	if s.raw {
		doc.Value = json.RawMessage(it.Value)
	} else {
		doc.Value, doc.Encoding = inJSON(it.Value)
	}
	return marshal(doc)
}

// inJSON returns bytes as they stand in JSON: in base64, as encoding/json writes them, if they are not UTF-8.
func inJSON(b []byte) (value any, encoding string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return b, "base64"
}

// marshal writes a value as JSON on one line, without the line end. It must be
// one that can't fail.
func marshal(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintf(&b, `{"error":%q}`, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// printJSON prints a value on one line.
func (a *app) printJSON(v any) error {
	_, err := a.output().Write(append(marshal(v), '\n'))
	return err
}

// answer prints what a command has done: with --json a document, else a text.
func (a *app) answer(document any, format string, args ...any) error {
	if a.json {
		return a.printJSON(document)
	}
	return a.printf(format, args...)
}

// table lines up columns on standard output.
func (a *app) table() *tabwriter.Writer { return tabwriter.NewWriter(a.output(), 0, 0, 2, ' ', 0) }

// listing prints many of a kind: with --json a document each, else the rows of a table.
type listing struct {
	app  *app
	w    *tabwriter.Writer
	rows int
}

// list begins a listing. The header, which may be "", is that of a table.
func (a *app) list(header string) *listing {
	l := &listing{app: a, w: a.table()}
	if !a.json {
		fmt.Fprint(l.w, header)
	}
	return l
}

func (l *listing) add(document any, format string, args ...any) (err error) {
	if l.rows++; l.app.json {
		return l.app.printJSON(document)
	}
	_, err = fmt.Fprintf(l.w, format, args...)
	return err
}

// end prints what is left, if there is anything.
func (l *listing) end() error {
	if l.rows == 0 {
		return errNothing
	}
	return l.w.Flush()
}

// regular returns the file that a stream is, if it is a regular one, or nil.
func regular(stream any) (*os.File, fs.FileInfo) {
	f, ok := stream.(*os.File)
	if !ok {
		return nil, nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	return f, info
}

// printf prints to standard output.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.output(), format, args...)
	return err
}

// count writes a number with commas.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plural writes a number of things.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// items writes a number of items.
func items(n int) string { return plural(n, "item") }

// size writes a number of bytes.
func size(n int64) string {
	value, unit := float64(n), 0
	units := []string{"B", "kB", "MB", "GB", "TB"}
	for value >= 999.95 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
