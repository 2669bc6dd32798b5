package server

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"

	"github.com/conq-go/conq/server/internal/access"
)

// Tokens are those of a file, as last read. docs/security.md describes it.
// They are safe for concurrent use.
type Tokens struct{ file *access.Tokens }

// LoadTokens reads a file of tokens.
func LoadTokens(path string) (*Tokens, error) {
	file, err := access.LoadTokens(path)
	if err != nil {
		return nil, err
	}
	return &Tokens{file}, nil
}

// Reload reads the file again. After an error the tokens are those from before.
func (t *Tokens) Reload() error { return t.file.Reload() }

// of returns the tokens as package access has them; of nil, nil.
func (t *Tokens) of() *access.Tokens {
	if t == nil {
		return nil
	}
	return t.file
}

// Certificate is one of files, as last read. It is safe for concurrent use.
type Certificate struct{ files *access.Certificate }

// LoadCertificate reads a certificate with its chain, and its key, in PEM.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	files, err := access.LoadCertificate(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return &Certificate{files}, nil
}

// Reload reads the files again. After an error the certificate is that from before.
func (c *Certificate) Reload() error { return c.files.Reload() }

// Config returns a configuration of a server by which each new connection gets the certificate as last read.
func (c *Certificate) Config() *tls.Config { return c.files.Config() }

// NewToken makes a token, and adds it to a file of tokens if path is not empty. A scope is produce, consume, admin or watch, and a
// pattern of queue names behind a colon, in which a * is any text: produce:orders.*. The secret is what the token's holder sends,
// and is kept nowhere; entry is the token as the file has it.
func NewToken(path, name string, scopes []string) (secret string, entry []byte, err error) {
	var permissions []access.Permission
	for _, s := range scopes {
		p, err := access.ParsePermission(s)
		if err != nil {
			return "", nil, err
		}
		permissions = append(permissions, p)
	}
	token, secret, err := access.NewToken(name, permissions)
	if err != nil {
		return "", nil, err
	}
	if entry, err = json.MarshalIndent(token, "", "  "); err == nil && path != "" {
		err = access.AddToFile(path, token)
	}
	return secret, entry, err
}

// Reload reads tokens and certificate again. What fails stays as it was; requests and connections under way are not touched.
func (s *Server) Reload() error {
	var errs []error
	if t := s.options.Tokens; t != nil {
		errs = append(errs, t.Reload())
	}
	if c := s.options.Certificate; c != nil {
		errs = append(errs, c.Reload())
	}
	return errors.Join(errs...)
}

// secure returns a listener that speaks TLS if there is a certificate, or an error if a server must not answer
// at its address.
func (s *Server) secure(l net.Listener) (net.Listener, error) {
	o := &s.options
	if err := access.CheckAddress(l.Addr(), o.Tokens != nil || o.Identify != nil, o.Certificate != nil, o.Insecure); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if o.Certificate == nil {
		return l, nil
	}
	return tls.NewListener(l, o.Certificate.Config()), nil
}
