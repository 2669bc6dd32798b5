package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine is where it was measured.
type machine struct {
	OS    string  `json:"os"`
	Arch  string  `json:"arch"`
	CPU   string  `json:"cpu"`
	Cores int     `json:"cores"`
	Load  string  `json:"load"`     // average of a minute, when it began
	Sync  float64 `json:"fsync_us"` // median
}

func thisMachine(dir string) machine {
	load, _, _ := strings.Cut(firstLine("/proc/loadavg", ""), " ")
	_, cpu, _ := strings.Cut(firstLine("/proc/cpuinfo", "model name"), ":")
	return machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: strings.TrimSpace(cpu), Cores: runtime.NumCPU(),
		Load: load, Sync: syncTime(dir),
	}
}

func (m machine) String() string {
	return fmt.Sprintf("%s/%s, %s, %d cores, load %s, fsync %.0f µs", m.OS, m.Arch, m.CPU, m.Cores, m.Load, m.Sync)
}

// firstLine returns the first line of a file that begins with prefix.
func firstLine(file, prefix string) string {
	text, _ := os.ReadFile(file)
	for l := range strings.Lines(string(text)) {
		if strings.HasPrefix(l, prefix) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// syncTime returns what it takes to append 4 KiB to a file and sync it, in
// microseconds, or 0 if that fails.
func syncTime(dir string) float64 {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var all []time.Duration
	for range 100 {
		before := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		all = append(all, time.Since(before))
	}
	return micros(middle(all))
}
