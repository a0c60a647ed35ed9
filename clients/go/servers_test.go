// SPDX-License-Identifier: Apache-2.0

package snowflake_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/snowflake"
	"example.com/snowflake/snowflaketest"
)

func TestLocalSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	snowflaketest.StartServer(t, "--listen", "unix:"+path)
	next(t, open(t, snowflake.Options{}, "unix:"+path))
}

func TestIPv6(t *testing.T) {
	if probe, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6")
	} else {
		probe.Close()
	}
	address := snowflaketest.StartServer(t, "--listen", "[::1]:0")
	if !strings.HasPrefix(address, "[::1]:") {
		t.Fatal(address)
	}
	next(t, open(t, snowflake.Options{}, address))
}

func TestName(t *testing.T) {
	address := snowflaketest.StartServer(t)
	name := "localhost" + strings.TrimPrefix(address, "127.0.0.1")
	next(t, open(t, snowflake.Options{}, name)) // at ::1 nobody listens
	gone := "localhost" + strings.TrimPrefix(deadAddress(t), "127.0.0.1")
	attempt := failed(t, gone)
	if !strings.HasPrefix(attempt.Address, "127.0.0.1:") && !strings.HasPrefix(attempt.Address, "[::1]:") {
		t.Errorf("the address is %q", attempt.Address)
	}
	var lookup *net.DNSError
	if attempt := failed(t, "nobody.invalid"); attempt.Kind != snowflake.ErrUnreachable ||
		!errors.As(attempt.Cause, &lookup) {
		t.Errorf("%v, because of %v", attempt, attempt.Cause)
	}
}

// An authority, and whom it certifyes for.
type authority struct {
	directory   string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{directory: t.TempDir()}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	a.certificate, a.key = a.sign(t, "ca", template)
	return a
}

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, parentKey := a.certificate, a.key
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", "CERTIFICATE", der)
	a.write(t, name+".key", "PRIVATE KEY", secret)
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(a.path(name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.directory, name) }

func (a *authority) certify(t *testing.T, name string, hosts ...string) {
	t.Helper()
	a.sign(t, name, &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: hosts,
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
}

func (a *authority) start(t *testing.T, name string, options ...string) string {
	t.Helper()
	address := snowflaketest.StartServer(t, append([]string{"--listen", "tls:127.0.0.1:0",
		"--tls-certificate", a.path(name + ".pem"), "--tls-key", a.path(name + ".key")}, options...)...)
	return "tls:localhost" + address[strings.LastIndex(address, ":"):]
}

func TestTLS(t *testing.T) {
	known, stranger := newAuthority(t), newAuthority(t)
	known.certify(t, "here", "localhost")
	known.certify(t, "elsewhere", "elsewhere.test")
	known.certify(t, "client")
	pool := func(a *authority) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(a.certificate)
		return pool
	}
	own, err := tls.LoadX509KeyPair(known.path("client.pem"), known.path("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	here, elsewhere := known.start(t, "here"), known.start(t, "elsewhere")
	asks := known.start(t, "here", "--tls-client-ca", known.path("ca.pem"))
	for name, one := range map[string]struct {
		server string
		config *tls.Config
		isGood bool
	}{
		"right":             {here, &tls.Config{RootCAs: pool(known)}, true},
		"another authority": {here, &tls.Config{RootCAs: pool(stranger)}, false},
		"the machine's":     {here, nil, false},
		"another name":      {elsewhere, &tls.Config{RootCAs: pool(known)}, false},
		"that name":         {elsewhere, &tls.Config{RootCAs: pool(known), ServerName: "elsewhere.test"}, true},
		"unknown client":    {asks, &tls.Config{RootCAs: pool(known)}, false},
		"known client": {asks, &tls.Config{RootCAs: pool(known), Certificates: []tls.Certificate{own}},
			true},
	} {
		if one.isGood {
			next(t, open(t, snowflake.Options{TLS: one.config}, one.server))
			continue
		}
		err := failing(t, snowflake.Options{TLS: one.config}, 1, takeOne, one.server)
		if err.Attempts[0].Kind != snowflake.ErrUnreachable || err.Attempts[0].Cause == nil {
			t.Errorf("%s: %v", name, err)
		}
		var unknown x509.UnknownAuthorityError
		if errors.As(err, &unknown) != (name == "another authority" || name == "the machine's") {
			t.Errorf("%s: %v, because of %v", name, err, err.Attempts[0].Cause)
		}
	}
	silent := "tls:" + listen(t, hang)
	_, err = open(t, snowflake.Options{Timeout: 100 * time.Millisecond}, silent).NextID(background)
	if !errors.Is(err, snowflake.ErrTimeout) {
		t.Error(err)
	}
}
