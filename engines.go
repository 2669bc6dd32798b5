package conq

// Engines that Open always knows. Another one is known to a program that imports
// its package.
import (
	_ "github.com/conq-go/conq/kv/embedded"
	_ "github.com/conq-go/conq/kv/memory"
)
