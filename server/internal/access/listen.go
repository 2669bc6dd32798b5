package access

import (
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
)

// CheckAddress returns an error if a server must not answer at an address: any that is not of the loopback interface needs tokens, and
// TLS unless insecure says that something else keeps secrets secret.
func CheckAddress(addr net.Addr, tokens, tls, insecure bool) error {
	switch {
	case isLoopback(addr):
		return nil
	case !tokens:
		return fmt.Errorf("%v can be reached by others, so tokens are needed: conq token new makes them; without tokens listen on 127.0.0.1", addr)
	case !tls && !insecure:
		return fmt.Errorf("%v can be reached by others, who could read tokens and items: give a certificate, or --insecure if a proxy or a private network sees to that", addr)
	}
	return nil
}

// Certificate is one in files, as last read. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads a certificate with its chain, and its key, in PEM.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	return c, c.Reload()
}

// Reload reads the files again. After an error the certificate is that from before.
func (c *Certificate) Reload() error {
	cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("certificate %q with key %q: %w", c.certFile, c.keyFile, err)
	}
	c.current.Store(&cert)
	return nil
}

// Config returns a configuration of a server by which each new connection gets the certificate as last read.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
		NextProtos:     []string{"h2", "http/1.1"},
	}
}
