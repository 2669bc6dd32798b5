package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// A bill of materials, as CycloneDX has it.
type (
	bill struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Ref     string `json:"bom-ref"`
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
		Hashes  []hash `json:"hashes,omitempty"`
	}
	hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
)

// writeBill writes which modules are in the command, with the checksums that go.sum has of them, in hexadecimal.
func (r *release) writeBill(p platform) error {
	b, err := billOf(p.info, r.version(), r.date)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return r.write("conq_"+r.version()+"_"+p.system+"_"+p.arch+".cdx.json", append(text, '\n'))
}

func billOf(info *debug.BuildInfo, version string, date time.Time) (bill, error) {
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{
		Timestamp: date.Format(time.RFC3339), Component: componentOf("application", info.Main.Path, "v"+version),
	}}
	b.Components = append(b.Components, componentOf("library", "std", strings.TrimPrefix(info.GoVersion, "go")))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := componentOf("library", m.Path, m.Version)
		sum, found := strings.CutPrefix(m.Sum, "h1:")
		raw, err := base64.StdEncoding.DecodeString(sum)
		if !found || err != nil {
			return b, fmt.Errorf("checksum %q of %s is not of the form h1", m.Sum, m.Path)
		}
		c.Hashes = []hash{{Alg: "SHA-256", Content: hex.EncodeToString(raw)}}
		b.Components = append(b.Components, c)
	}
	return b, nil
}

func componentOf(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Ref: purl, Type: kind, Name: path, Version: version, PURL: purl}
}
