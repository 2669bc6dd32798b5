//go:build !linux

package embedded

import "errors"

const canMap = false

var mapFile = func(uintptr, int64, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }
