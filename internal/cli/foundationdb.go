package cli

// FoundationDB clusters can be opened if the program is built with its tag; if not,
// this links nothing, and opening one says how to build.
import _ "github.com/conq-go/conq/kv/foundationdb"
