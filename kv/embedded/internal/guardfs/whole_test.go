package guardfs

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/conq-go/conq/internal/testkit"
)

// Whichever change of a file fails, a file has its old text or its new one after a crash; and the new one
// if nothing has failed.
func TestWriteWhole(t *testing.T) {
	for fail := int32(0); ; fail++ {
		fs := vfs.NewCrashableMem()
		testkit.NoError(t, fs.MkdirAll("dir", 0o755))
		testkit.NoError(t, SyncDir(fs, "."))
		testkit.NoError(t, WriteWhole(fs, "dir", "file", "old"))
		failed := WriteWhole(errorfs.Wrap(fs, errorfs.ErrInjected.If(errorfs.OnIndex(fail))), "dir", "file", "new")
		text, err := ReadWhole(fs.CrashClone(vfs.CrashCloneCfg{}), "dir/file")
		testkit.NoError(t, err)
		if text != "new" && (failed == nil || text != "old") {
			t.Errorf("operation %d failed with %v, and the file has %q", fail, failed, text)
		}
		if failed == nil {
			testkit.Equal(t, "enough operations", fail > 5, true)
			return
		}
	}
}

// A file of another program is not read as a whole, however long it is.
func TestReadWholeLong(t *testing.T) {
	fs := vfs.NewMem()
	testkit.NoError(t, WriteWhole(fs, "", "file", fmt.Sprintf("%10000d", 1)))
	text, err := ReadWhole(fs, "file")
	testkit.NoError(t, err)
	testkit.Equal(t, "bytes", len(text), 4096)
}
