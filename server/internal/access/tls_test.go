package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// writeCertificate writes a certificate of a serial number, and its key.
func writeCertificate(t *testing.T, serial int64, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"queues.test"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.NoError(t, err)
	testkit.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	testkit.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// serial returns the serial number of the certificate that a new connection gets.
func serial(t *testing.T, addr string) int64 {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	testkit.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	_, err := LoadCertificate(certFile, keyFile)
	testkit.WantError(t, err, os.ErrNotExist, certFile)
	writeCertificate(t, 1, certFile, keyFile)
	c, err := LoadCertificate(certFile, keyFile)
	testkit.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
	testkit.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.(*tls.Conn).Handshake()
			}()
		}
	}()
	addr := l.Addr().(*net.TCPAddr).String()
	testkit.Equal(t, "serial", serial(t, addr), 1)
	writeCertificate(t, 2, certFile, keyFile)
	testkit.Equal(t, "serial before it is read again", serial(t, addr), 1)
	testkit.NoError(t, c.Reload())
	testkit.Equal(t, "serial", serial(t, addr), 2)
	testkit.NoError(t, os.WriteFile(keyFile, []byte("no key"), 0o600))
	fails(t, c.Reload(), keyFile)
	testkit.Equal(t, "serial after a failed reload", serial(t, addr), 2)
}
