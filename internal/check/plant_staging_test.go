package check_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

var plantedStaging = []planted{
	{
		name: "keys and values that do not decode",
		plant: func(t *testing.T, p *plot) {
			later := p.at(inTime)
			for _, key := range [][]byte{
				p.stage(), p.stage("x"), p.stage(5), append(p.stage(), 0xfe), p.stage(0, 1), p.stage(0),
				p.stage(2), p.stage(2, 1), p.stage(3, opID(1)), p.stage(3, 1, opID(1)), p.stage(3, 1, 1, 1, opID(1)), p.stage(3, 1, 1, "x"), p.stage(4, 1),
			} {
				p.set(key, nil)
			}
			p.set(p.stage(1, 1, opID(1)), p.state(1, inTime))
			p.set(p.stage(1, 1, 3, opID(1)), p.state(1, inTime))
			p.set(p.stage(1, 1, 0, opID(1)), testkit.Packed(t, nil, -1, later))
			p.set(p.stage(4, 1, opID(2)), testkit.Packed(t, nil, later))
		},
		want: strings.Repeat("staging key q, ", 16) + "staging key q",
	},
	{
		name: "a result with a key that is not an item's",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.stage(2, p.at(tooLateBy), opID(7), 5), nil)
		},
		want: "staging key q",
	},
	{
		name: "a result with an item of no number",
		plant: func(t *testing.T, p *plot) {
			p.put(1, tooLateBy)
			item := p.staged()[0]
			p.set(p.stage(2, p.at(tooLateBy), opID(7), "x", p.original(item)), p.value(item))
			p.clear(item)
		},
		want: "staging key q",
	},
	{
		name:  "a request that was served",
		plant: func(t *testing.T, p *plot) { p.set(p.stage(1, 5, 0, opID(8)), p.state(1, inTime)) },
		want:  "served request q+", then: "served request q*",
	},
	{
		name: "a result without its place",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			for _, key := range p.keys(kv.PrefixRange(p.stage(3))) {
				if bytes.HasSuffix(key, testkit.Packed(t, nil, opID(7))) {
					p.clear(key)
				}
			}
		},
		want: "result without place q+", then: "result without place q*",
	},
	{
		name:  "a place of no result",
		plant: func(t *testing.T, p *plot) { p.set(p.stage(3, 99, 1, opID(1)), nil) },
		want:  "place without result q+", then: "place without result q*",
	},
	{
		name: "a result whose items have other numbers, too old",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			last := p.staged()[1]
			p.set(p.stage(2, p.at(tooLateBy), opID(7), 5, p.original(last)), p.value(last))
			p.clear(last)
		},
		want: "incomplete result q+", then: "incomplete result q*",
	},
	{
		name: "an item of another queue, which would go there",
		plant: func(t *testing.T, p *plot) {
			p.put(1, tooLateBy)
			p.set(p.stage(2, p.at(tooLateBy), opID(7), 1, testkit.Packed(t, nil, "p", 1, 1, opID(1))), nil)
		},
		want: "staged key q",
	},
	{
		name: "an item that is in the queue, too",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			p.set(p.original(p.staged()[0]), p.value(p.staged()[0]))
		},
		want: "item twice q",
	},
	{
		name: "an item that is in the queue, too, and goes back over itself",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.original(p.staged()[0]), p.value(p.staged()[0]))
		},
		want: "item twice q+", then: "item twice q*",
	},
	{
		name: "an item that is in the queue, too, with another value, and would go back",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.original(p.staged()[0]), []byte("other"))
		},
		want: "item twice q",
	},
	{
		name:  "an item in two results",
		plant: func(t *testing.T, p *plot) { p.putTwice(t, tooLateBy, inTime) },
		// What is too old goes back, and then the item is in the queue and in the other result.
		want: "item twice q", then: "item twice q", after: "item twice q",
	},
	{
		name:  "an item in two results, the second of which is too old",
		plant: func(t *testing.T, p *plot) { p.putTwice(t, inTime, tooLateBy) },
		want:  "item twice q", then: "item twice q", after: "item twice q",
	},
	{
		name:  "an item without any piece goes back, and is told once",
		plant: func(_ *testing.T, p *plot) { p.putWithoutPieces() },
		want:  "pieces q", then: "pieces q", after: "pieces q",
	},
	{
		name: "an item without any piece that would go back, and a format that does not decode",
		plant: func(_ *testing.T, p *plot) {
			p.putWithoutPieces()
			p.set(layout.FormatKey(), []byte("x"))
		},
		want: "format, pieces q",
	},
}
