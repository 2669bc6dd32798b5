package main

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	"github.com/conq-go/conq/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manuals makes a manual page for each subcommand, and the completions of four shells.
func manuals(version string, date time.Time) (all []file, err error) {
	root := cli.Command()
	root.DisableAutoGenTag = true
	dir, err := os.MkdirTemp("", "conq-man")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "conq " + version, Manual: "conq"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		b, err := os.ReadFile(filepath.Join(dir, p.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: "man/man1/" + p.Name(), content: b})
	}
	completions, err := completions(root)
	return append(all, completions...), err
}

func completions(root *cobra.Command) (all []file, err error) {
	for _, shell := range []struct {
		name string
		gen  func(*bytes.Buffer) error
	}{
		{"conq.bash", func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) }},
		{"_conq", func(b *bytes.Buffer) error { return root.GenZshCompletion(b) }},
		{"conq.fish", func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) }},
		{"conq.ps1", func(b *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(b) }},
	} {
		var b bytes.Buffer
		if err := shell.gen(&b); err != nil {
			return nil, err
		}
		all = append(all, file{name: "completions/" + shell.name, content: b.Bytes()})
	}
	return all, nil
}
