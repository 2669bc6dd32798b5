package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
)

// Durability is what an acknowledgement promises.
type Durability int

const (
	// Always: what is acknowledged is on disk, and survives power failure,
	// but for what was written by transactions that don't ask for it (kv.NoSync).
	Always Durability = iota
	// Interval: what is acknowledged has reached the operating system, and
	// survives the death of the process. It is on disk at most Options.Interval
	// later, plus the time that a sync takes: that much a power failure may undo.
	Interval
	// Memory: what is acknowledged is visible to others in this process. The
	// death of the process may undo the latest of it; Close writes all of it.
	Memory
)

var durabilities = []string{"always", "interval", "memory"}

func (d Durability) String() string {
	if d < Always || d > Memory {
		return fmt.Sprintf("Durability(%d)", int(d))
	}
	return durabilities[d]
}

// ParseDurability returns the durability that String gives name for.
func ParseDurability(name string) (Durability, error) {
	if d := slices.Index(durabilities, name); d >= 0 {
		return Durability(d), nil
	}
	return 0, fmt.Errorf("durability %.40q is not one of always, interval, memory", name)
}

// ErrFailed means that writing to disk failed earlier. The store must be opened
// again; what had been acknowledged is there, unless Interval or Memory let a
// power failure undo it: a disk that fails may do that, too.
var ErrFailed = kv.ErrFailed

// ErrInUse means that another process, or another DB of this one, has the store open.
var ErrInUse = errors.New("store is in use")

// Options are the choices for a store. The zero value is a safe default.
type Options struct {
	// Durability is what an acknowledgement promises. It is a choice of each
	// opening, not of the store. Default: Always.
	Durability Durability

	// Interval is the time between two syncs with Durability Interval. With
	// Always it is how long what need not be synced (kv.NoSync) waits for
	// that at most. Default: 10 ms.
	Interval time.Duration

	// Age is how long a transaction may last. That a large commit waits for a slow disk does not
	// count. Default: 5 s.
	Age time.Duration

	// MemTable is the size in bytes of Pebble's memtables, of which up to four
	// are held: at least 4096, and less than 4 GiB. Default: 16 MiB.
	MemTable int

	// Cache is the size in bytes of the block cache. While more than two memtables
	// are held, it is smaller by as much as these others take. Default: 32 MiB.
	Cache int64

	// FS is the file system that holds the directory. Default: the operating
	// system's.
	FS vfs.FS

	// Logger gets what went wrong in the background. Default: nothing is
	// logged.
	Logger *slog.Logger

	// Now tells the time for Age. Default: as time.Now does.
	Now func() time.Time
}

// usualMemTable is the default of Options.MemTable. Without cgo memtables are in Go's heap, which grows to
// twice what is in use.
const usualMemTable = 16 << 20

// Pebble's memtables have some 1,500 bytes of their own, and their offsets have 32 bits.
const (
	leastMemTable   = 4 << 10
	largestMemTable = min(math.MaxUint32, math.MaxInt) - 1
)

func (o Options) withDefaults() (Options, error) {
	if o.Durability < Always || o.Durability > Memory {
		return o, fmt.Errorf("%w: embedded: no such durability: %v", kv.ErrInvalid, o.Durability)
	}
	if o.Interval < 0 || o.Age < 0 || o.MemTable < 0 || o.Cache < 0 {
		return o, fmt.Errorf("%w: embedded: Options.Interval, Age, MemTable and Cache must not be negative", kv.ErrInvalid)
	}
	o.Interval = cmp.Or(o.Interval, 10*time.Millisecond)
	o.Age = cmp.Or(o.Age, 5*time.Second)
	o.Cache = cmp.Or(o.Cache, 32<<20)
	o.FS = cmp.Or(o.FS, vfs.Default)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MemTable = cmp.Or(o.MemTable, usualMemTable)
	if o.MemTable < leastMemTable || o.MemTable > largestMemTable {
		return o, fmt.Errorf("%w: embedded: Options.MemTable is %d: it can be %d to %d bytes, or 0 for the default of %d",
			kv.ErrInvalid, o.MemTable, leastMemTable, largestMemTable, usualMemTable)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

// limits are the engine's. Keys are bounded as FoundationDB's are, so that a
// queue can move there; values and transactions are larger, since there is no
// network to cross.
func (o Options) limits() kv.Limits {
	return kv.Limits{
		Key:         10_000,
		Value:       4 << 20,
		Transaction: 64 << 20,
		Age:         o.Age,
	}
}
