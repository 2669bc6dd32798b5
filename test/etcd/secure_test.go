package etcd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// certs are files: of an authority, and of one who it trusts.
type certs struct{ ca, cert, key string }

func newCerts(t testing.TB) *certs {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		file := filepath.Join(dir, name)
		testkit.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return file
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.NoError(t, err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	testkit.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "member"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	testkit.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	testkit.NoError(t, err)
	return &certs{
		ca: write("ca.pem", "CERTIFICATE", caDER), cert: write("cert.pem", "CERTIFICATE", leafDER),
		key: write("key.pem", "EC PRIVATE KEY", keyDER),
	}
}

func (c *certs) config(t testing.TB) *tls.Config {
	t.Helper()
	o, err := etcd.ParseURL(fmt.Sprintf("etcd://h?ca=%s&cert=%s&key=%s", c.ca, c.cert, c.key))
	testkit.NoError(t, err)
	return o.TLS
}

// A cluster with TLS, certificates of clients, users and rights is opened by a URL.
func TestSecure(t *testing.T) {
	files := newCerts(t)
	c := startCluster(t, clusterOptions{certs: files})
	ctx := t.Context()
	for user, prefix := range map[string]string{"root": "", "worker": "jobs\x00"} {
		_, err := c.direct.UserAdd(ctx, user, "secret of "+user)
		testkit.NoError(t, err)
		_, err = c.direct.RoleAdd(ctx, user)
		testkit.NoError(t, err)
		if prefix != "" {
			_, err = c.direct.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
			testkit.NoError(t, err)
		}
		_, err = c.direct.UserGrantRole(ctx, user, user)
		testkit.NoError(t, err)
	}
	_, err := c.direct.AuthEnable(ctx)
	testkit.NoError(t, err)

	hosts := strings.Join(c.options().Endpoints, ",")
	trust := "ca=" + files.ca + "&patience=2s&timeout=1s"
	whole := trust + "&cert=" + files.cert + "&key=" + files.key
	t.Setenv(etcd.PasswordVariable, "secret of worker")
	db, err := kv.Open(ctx, "etcd://"+hosts+"/jobs?user=worker&"+whole)
	testkit.NoError(t, err)
	defer db.Close()
	set(t, db, "a")
	if got := get(t, db, "a"); got != "a" {
		t.Errorf("a key came back as %q", got)
	}
	q := openQueue(t, db, "q")
	testkit.NoError(t, q.Enqueue(ctx, "item"))
	if v, err := q.DequeueWait(ctx); v != "item" || err != nil {
		t.Errorf("an item came back as %q, %v", v, err)
	}

	for url, want := range map[string]string{
		"etcd://worker:wrong@" + hosts + "/jobs?" + whole:                       "invalid user ID or password",
		"etcd://worker@" + hosts + "/others?" + whole:                           "permission denied",
		"etcd://worker@" + hosts + "/jobs?" + trust:                             "no",
		"etcd://" + hosts + "/jobs?" + whole:                                    "permission denied", // who the certificate names has no rights
		"etcd://worker@" + hosts + "/jobs?" + whole + "&servername=example.com": "no",
	} {
		db, err := kv.Open(ctx, url)
		if err == nil {
			db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("opening %s: error %v, want one with %q", url, err, want)
		}
		if errors.Is(err, kv.ErrCommitUnknown) {
			t.Errorf("opening %s: error %v: nothing is unknown about that", url, err)
		}
	}
}
