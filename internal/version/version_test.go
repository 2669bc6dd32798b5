package version

import (
	"runtime/debug"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

func TestOf(t *testing.T) {
	vcs := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-29T00:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}
	for _, c := range []struct {
		name       string
		info       debug.BuildInfo
		told, want string
	}{
		{"a release", debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}, Settings: vcs}, "", "v1.2.3"},
		{"told", debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "v1.2.3", "v1.2.3"},
		{"a revision", debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}, Settings: vcs}, "", "(devel) 0123456789ab+dirty 2026-11-29T00:00:00Z"},
		{"in another program", debug.BuildInfo{
			Main: debug.Module{Path: "example.com/other", Version: "v9.0.0"}, Deps: []*debug.Module{{Path: module, Version: "v1.2.3"}}, Settings: vcs,
		}, "", "v1.2.3"},
		{"nothing known", debug.BuildInfo{}, "", "(devel)"},
	} {
		testkit.Equal(t, c.name, of(&c.info, Build{Version: c.told}).String(), c.want)
	}
	testkit.Equal(t, "product", Build{Version: unknown}.Product(), "conq/devel")
}
