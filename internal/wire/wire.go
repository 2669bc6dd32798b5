// Package wire is what a server and its clients exchange in JSON: one declaration for both. Tags of query and doc are for the
// server's OpenAPI document.
package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// Payload is the bytes of an item or a job in JSON: exactly one of its forms.
type Payload struct {
	JSON   json.RawMessage `json:"json,omitempty" doc:"A JSON value. It is stored as its text, without spaces between tokens."`
	Text   *string         `json:"text,omitempty" doc:"Text, stored as UTF-8."`
	Base64 *[]byte         `json:"base64,omitempty" doc:"Any bytes, in base64 with padding."`
}

// Base64 is a payload in the form that any bytes have.
func Base64(b []byte) Payload { return Payload{Base64: &b} }

// Check returns an error unless there is one form.
func (p Payload) Check() error {
	n := 0
	for _, given := range []bool{p.JSON != nil, p.Text != nil, p.Base64 != nil} {
		if given {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("%d of json, text and base64 are given: it has to be one", n)
	}
	return nil
}

// Bytes returns what the payload says, of which the forms were checked.
func (p Payload) Bytes() []byte {
	switch {
	case p.Text != nil:
		return []byte(*p.Text)
	case p.Base64 != nil:
		return *p.Base64
	}
	var b bytes.Buffer
	_ = json.Compact(&b, p.JSON) // it was parsed
	return b.Bytes()
}

// Size is how many bytes it has, or somewhat more.
func (p Payload) Size() int {
	n := len(p.JSON)
	if p.Text != nil {
		n += len(*p.Text)
	}
	if p.Base64 != nil {
		n += len(*p.Base64)
	}
	return n
}

// Duration is a length of time as text: "1m30s".
type Duration struct{ time.Duration }

// UnmarshalText reads what time.ParseDuration does, but nothing negative.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is no duration: it is as 1.5s, 2m or 1h30m", text)
	}
	if v < 0 {
		return fmt.Errorf("a duration of %v: it can't be negative", v)
	}
	d.Duration = v
	return nil
}

// MarshalText writes as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Timeout is how long an attempt of a job may run, or none if that is work.NoTimeout.
type Timeout struct{ time.Duration }

// UnmarshalText reads a duration, or none.
func (t *Timeout) UnmarshalText(text []byte) (err error) {
	t.Duration, err = work.ParseTimeout(string(text))
	return err
}

// MarshalText writes what UnmarshalText reads.
func (t Timeout) MarshalText() ([]byte, error) {
	if t.Duration == work.NoTimeout {
		return []byte("none"), nil
	}
	return []byte(t.String()), nil
}

// Place is where a page goes on behind another one. The zero Place is the begin, and after the last page.
type Place struct{ Key []byte }

// IsZero tells whether it is the zero Place.
func (p Place) IsZero() bool { return len(p.Key) == 0 }

// MarshalText writes the place as text that needs no escaping in a URL.
func (p Place) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, p.Key), nil
}

// UnmarshalText reads what MarshalText writes.
func (p *Place) UnmarshalText(text []byte) (err error) {
	if p.Key, err = base64.RawURLEncoding.AppendDecode(nil, text); err != nil {
		return fmt.Errorf("it is %.60q: it has to be the next of another page", text)
	}
	return nil
}

// Item is an item of a queue or a priority queue.
type Item struct {
	Payload
	Priority *int64 `json:"priority,omitempty" doc:"Only in a priority queue. The lowest comes first. Default: 0."`
}

// ItemList is items to be added, or that were taken.
type ItemList struct {
	Items []Item `json:"items" nullable:"false"`
}

// ItemPage is items that stay.
type ItemPage struct {
	ItemList
	Next Place `json:"next,omitzero" doc:"What to give as after for the next page. It is not there at the end."`
}

// Move is what is to be moved.
type Move struct {
	From string `json:"from" doc:"A queue or a priority queue."`
	To   string `json:"to" doc:"One of the same kind, which is made if there is none."`
	N    int    `json:"n,omitempty" minimum:"1" maximum:"1000" default:"1" doc:"Up to how many items."`
	End  string `json:"end,omitempty" enum:"min,max" doc:"Of a priority queue. Default: min."`
}

// Moved is what was moved.
type Moved struct {
	Moved int `json:"moved" doc:"How many items, 0 if there were none."`
}

// EndOf returns the end that a text stands for: min, max, or nothing, which is min. Others are refused before, by the enum.
func EndOf(text string) queue.End {
	if text == queue.Max.String() {
		return queue.Max
	}
	return queue.Min
}
