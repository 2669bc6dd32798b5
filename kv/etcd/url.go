package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conq-go/conq/kv"
)

// PasswordVariable is the environment variable from which a URL that names a user
// and no password takes it.
const PasswordVariable = "CONQ_ETCD_PASSWORD"

const (
	scheme      = "etcd"
	defaultPort = "2379"
)

func init() {
	kv.Register(scheme, func(ctx context.Context, url string) (kv.DB, error) {
		o, err := ParseURL(url)
		if err != nil {
			return nil, err
		}
		return Open(ctx, o)
	})
}

// urlOptions are what may follow the question mark.
var urlOptions = []string{"ca", "cert", "compact", "key", "patience", "servername", "timeout", "tls", "user"}

// ParseURL returns the options that a URL stands for:
//
//	etcd://[user[:password]@]host[:port][,host[:port]...][/prefix][?option=value&...]
//
// The port is 2379 if there is none. The options:
//
//	ca          file with the certificates of authorities to trust; those of the system
//	            if there is none
//	cert, key   files with the certificate and the key to authenticate with; both or none
//	compact     Options.Compact, as 1000
//	servername  name that the certificates of members are for, if not the host's
//	tls         true to encrypt without any of these four
//	user        user name, if it is not before the @
//	timeout     Options.Timeout, as 5s
//	patience    Options.Patience, as 30s
//
// A user's password stands before the @, or in the environment variable
// CONQ_ETCD_PASSWORD, where other users of the machine do not see it. Bytes that
// mean something in URLs are written as %XX; an @ is, too, in the prefix and in options.
//
// The error wraps kv.ErrInvalid and does not repeat the password.
func ParseURL(rawURL string) (Options, error) {
	rest, ok := strings.CutPrefix(rawURL, scheme+"://")
	if !ok {
		return Options{}, invalid("a URL of etcd begins with etcd://host:2379")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.ContainsRune(path+query, '@') { // then what is here may be a part of a password
		return Options{}, invalid("an @ behind the host must be escaped, as %%40; and if it ends a password, a / or ? in that " +
			"must be escaped, as %%2F or %%3F")
	}
	var o Options
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		var err error
		if o.Username, o.Password, err = parseUser(authority[:at]); err != nil {
			return Options{}, err
		}
		authority = authority[at+1:]
	}
	var err error
	if o.Endpoints, err = parseHosts(authority); err != nil {
		return Options{}, err
	}
	if o.Prefix, err = url.PathUnescape(path); err != nil {
		return Options{}, invalid("prefix %q: %v", path, err)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return Options{}, invalid("options %q: %v", query, err)
	}
	return o.with(values)
}

func invalid(text string, args ...any) error {
	return fmt.Errorf("%w: etcd: "+text, append([]any{kv.ErrInvalid}, args...)...)
}

func parseUser(info string) (name, password string, err error) {
	rawName, rawPassword, _ := strings.Cut(info, ":")
	if name, err = url.PathUnescape(rawName); err != nil || name == "" {
		return "", "", invalid("the user before the @ is empty or badly escaped")
	}
	if password, err = url.PathUnescape(rawPassword); err != nil {
		return "", "", invalid("the password before the @ is badly escaped")
	}
	return name, password, nil
}

func parseHosts(authority string) ([]string, error) {
	if authority == "" {
		return nil, invalid("no host: a URL of etcd begins with etcd://host:2379")
	}
	var endpoints []string
	for _, address := range strings.Split(authority, ",") {
		host, port, err := net.SplitHostPort(address)
		if err != nil { // no port, or nonsense
			host, port = address, defaultPort
			if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
				host = address[1 : len(address)-1]
			}
		}
		number, portErr := strconv.ParseUint(port, 10, 16)
		bracketed := strings.HasPrefix(address, "[")
		if host == "" || portErr != nil || number == 0 || strings.ContainsAny(host, "[] \t\r\n\x00%#;") || !bracketed && strings.Contains(host, ":") {
			return nil, invalid("%q is not host, host:port or [IPv6]:port", address)
		}
		endpoints = append(endpoints, net.JoinHostPort(host, port))
	}
	return endpoints, nil
}

// with adds the options of a URL.
func (o Options) with(values url.Values) (Options, error) {
	for name, all := range values {
		switch {
		case !slices.Contains(urlOptions, name):
			return o, invalid("unknown option %q: there are %s", name, strings.Join(urlOptions, ", "))
		case len(all) > 1:
			return o, invalid("option %q is given %d times", name, len(all))
		case all[0] == "":
			return o, invalid("option %q is empty", name)
		}
	}
	if user := values.Get("user"); user != "" {
		if o.Username != "" {
			return o, invalid("two users: one before the @, and option \"user\"")
		}
		o.Username = user
	}
	if o.Username != "" && o.Password == "" {
		if o.Password = os.Getenv(PasswordVariable); o.Password == "" {
			return o, invalid("the user has no password: it stands before the @, as user:password@host, or in the environment variable %s",
				PasswordVariable)
		}
	}
	var err error
	for name, field := range map[string]*time.Duration{"timeout": &o.Timeout, "patience": &o.Patience} {
		if *field, err = duration(name, values.Get(name)); err != nil {
			return o, err
		}
	}
	if compact := values.Get("compact"); compact != "" {
		if o.Compact, err = strconv.Atoi(compact); err != nil || o.Compact <= 0 {
			return o, invalid("option \"compact\" is %q: it is a number of revisions, 1 at least", compact)
		}
	}
	o.TLS, err = tlsConfig(values)
	return o, err
}

// duration returns the value of an option, 0 if it is not given.
func duration(name, value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, invalid("option %q is %q: it is a time more than zero, as 5s", name, value)
	}
	return d, nil
}

// tlsConfig returns what the options say about encryption, nil if nothing.
func tlsConfig(values url.Values) (*tls.Config, error) {
	ca, cert, key, name := values.Get("ca"), values.Get("cert"), values.Get("key"), values.Get("servername")
	wanted := ca != "" || cert != "" || key != "" || name != ""
	switch given := values.Get("tls"); given {
	case "":
	case "true":
		wanted = true
	case "false":
		if wanted {
			return nil, invalid("option \"tls\" is false, but ca, cert, key or servername is given")
		}
	default:
		return nil, invalid("option \"tls\" is %q: it can be true or false", given)
	}
	if !wanted {
		return nil, nil
	}
	if (cert == "") != (key == "") {
		return nil, invalid("options \"cert\" and \"key\" go together")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, invalid("option \"ca\": %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("option \"ca\": there is no certificate in %q", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, invalid("options \"cert\" and \"key\": %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
