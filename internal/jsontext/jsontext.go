// Package jsontext refuses JSON that encoding/json would change silently: what is not UTF-8, and halves of surrogate pairs, as "\ud800",
// which are no characters. Both would become U+FFFD, so that different texts would be the same.
package jsontext

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// ErrUTF8 means that a text is not UTF-8.
var ErrUTF8 = errors.New("it is not UTF-8, which JSON has to be")

// HalfError says where half of a surrogate pair is.
type HalfError struct {
	Code   uint16 // the escaped half
	Offset int64  // of the first byte behind it, or of the second half that has no first
}

func (e *HalfError) Error() string {
	return fmt.Sprintf(`\u%04x at byte %d is half of a surrogate pair, and no character`, e.Code, e.Offset)
}

// IsWrong tells whether an error is one of this package.
func IsWrong(err error) bool { return err == ErrUTF8 || errors.As(err, new(*HalfError)) }

// Check returns what is wrong with JSON, or nil. Its syntax is not looked at.
func Check(b []byte) error {
	if !utf8.Valid(b) {
		return ErrUTF8
	}
	var s scanner
	_, err := s.scan(b)
	return err
}

// NewReader returns what r gives, up to what is wrong with it.
func NewReader(r io.Reader) io.Reader {
	return &reader{r: transform.NewReader(r, encoding.UTF8Validator)}
}

type reader struct {
	r   io.Reader
	s   scanner
	err error
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.r.Read(p)
	if err == encoding.ErrInvalidUTF8 {
		err = ErrUTF8
	}
	n, r.err = r.s.scan(p[:n])
	if r.err == nil {
		r.err = err
	}
	if n > 0 { // the error comes behind what is right
		return n, nil
	}
	return 0, r.err
}

// scanner finds halves of surrogate pairs in JSON.
type scanner struct {
	offset   int64
	inString bool
	escaped  int    // bytes of an escape so far
	code     uint16 // of \u, as far as it was read
	high     bool   // a first half comes directly before
	first    uint16
}

// scan returns how many bytes are right, and what is wrong with the next.
func (s *scanner) scan(b []byte) (int, error) {
	for i, c := range b {
		if half, wrong := s.next(c); wrong {
			return i, &HalfError{half, s.offset + int64(i)}
		}
	}
	s.offset += int64(len(b))
	return len(b), nil
}

const escapeSize = len(`\u0000`)

// next takes a byte, and returns the half that it shows to be alone.
func (s *scanner) next(c byte) (half uint16, wrong bool) {
	switch {
	case !s.inString:
		s.inString = c == '"'
	case s.escaped == 0 && c == '\\':
		s.escaped = 1
	case s.escaped == 0:
		s.inString = c != '"'
		return s.first, s.high
	case s.escaped == 1 && c == 'u':
		s.escaped, s.code = 2, 0
	case s.escaped == 1:
		s.escaped = 0
		return s.first, s.high
	default:
		return s.digit(c)
	}
	return 0, false
}

// digit takes a digit of \u.
func (s *scanner) digit(c byte) (half uint16, wrong bool) {
	switch {
	case '0' <= c && c <= '9':
		c -= '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		c = c | 0x20 - 'a' + 10
	default: // an error of syntax, which others tell
		s.escaped = 0
		return 0, false
	}
	s.code = s.code<<4 | uint16(c)
	if s.escaped++; s.escaped < escapeSize {
		return 0, false
	}
	s.escaped = 0
	isHigh, isLow := s.code>>10 == 0xd800>>10, s.code>>10 == 0xdc00>>10
	switch {
	case s.high && !isLow:
		return s.first, true
	case !s.high && isLow:
		return s.code, true
	}
	s.high, s.first = isHigh, s.code
	return 0, false
}
