package cli

import (
	"encoding/hex"
	"strings"

	"github.com/conq-go/conq/kv"
	"github.com/rogpeppe/go-internal/testscript"
)

func cmdPlant(ts *testscript.TestScript, _ bool, args []string) {
	var decoded [][]byte
	for _, text := range args[1:] {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		ts.Check(err)
		decoded = append(decoded, b)
	}
	write(ts, args[0], func(tx kv.Tx) error {
		if len(decoded) == 1 {
			tx.Clear(decoded[0])
		} else {
			tx.Set(decoded[0], decoded[1])
		}
		return nil
	})
}
