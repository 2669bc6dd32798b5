package etcd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"go.etcd.io/etcd/server/v3/embed"
)

// memberVariable is the environment variable that makes the test's binary a member
// of a cluster instead. So members are processes of their own: they can be killed
// and stopped for real.
const memberVariable = "CONQ_ETCD_TEST_MEMBER"

// memberConfig is what a member is told.
type memberConfig struct {
	Name, Dir          string
	ClientURL, PeerURL string
	Cluster            string // name=peer URL, with commas between
	New                bool   // the cluster begins with this start
	NoSync             bool   // nothing need outlive the machine
	Quota              int64  // bytes that the database may have; 0 for as many as usual
	Cert, Key, CA      string // files, to be reached by TLS, by clients with a certificate
}

func TestMain(m *testing.M) {
	if encoded := os.Getenv(memberVariable); encoded != "" {
		if err := beMember(encoded); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if encoded := os.Getenv(workerVariable); encoded != "" {
		fmt.Fprintln(os.Stderr, beWorker(encoded))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beMember serves until the process is killed, or its parent is gone.
func beMember(encoded string) error {
	var c memberConfig
	if err := json.Unmarshal([]byte(encoded), &c); err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = c.Name, c.Dir
	cfg.LogLevel, cfg.LogOutputs = "error", []string{c.Dir + ".log"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(c.ClientURL), urls(c.ClientURL)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(c.PeerURL), urls(c.PeerURL)
	cfg.InitialCluster = c.Cluster
	cfg.UnsafeNoFsync, cfg.QuotaBackendBytes = c.NoSync, c.Quota
	if c.Cert != "" {
		cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = c.Cert, c.Key
		cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = c.CA, true
	}
	if cfg.ClusterState = embed.ClusterStateFlagExisting; c.New {
		cfg.ClusterState = embed.ClusterStateFlagNew
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	parent := os.Getppid()
	for {
		select {
		case err := <-server.Err():
			return err
		case <-time.After(time.Second):
			if os.Getppid() != parent {
				return errors.New("the test has gone")
			}
		}
	}
}

func urls(s string) []url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return []url.URL{*u}
}

// member is a member, seen from the test.
type member struct {
	config  memberConfig
	process *exec.Cmd
	paused  bool
}

// start runs the process.
func (m *member) start(t testing.TB) {
	t.Helper()
	encoded, err := json.Marshal(m.config)
	testkit.NoError(t, err)
	self, err := os.Executable()
	testkit.NoError(t, err)
	m.process = exec.Command(self)
	m.process.Env = append(os.Environ(), memberVariable+"="+string(encoded))
	output, err := os.OpenFile(m.config.Dir+".out", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	testkit.NoError(t, err)
	defer output.Close()
	m.process.Stdout, m.process.Stderr = output, output
	testkit.NoError(t, m.process.Start())
	m.config.New = false
}

// kill ends the process at once.
func (m *member) kill() {
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill()
	_ = m.process.Wait()
	m.process, m.paused = nil, false
}

// pause stops the process, which keeps its connections, until resume.
func (m *member) pause(t testing.TB) {
	t.Helper()
	testkit.NoError(t, m.process.Process.Signal(syscall.SIGSTOP))
	m.paused = true
}

func (m *member) resume(t testing.TB) {
	t.Helper()
	testkit.NoError(t, m.process.Process.Signal(syscall.SIGCONT))
	m.paused = false
}

// output is what the member has said.
func (m *member) output() string {
	var all strings.Builder
	for _, name := range []string{m.config.Dir + ".out", m.config.Dir + ".log"} {
		text, err := os.ReadFile(name)
		if err == nil && len(text) > 0 {
			fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(name), text[max(0, len(text)-4000):])
		}
	}
	return all.String()
}
