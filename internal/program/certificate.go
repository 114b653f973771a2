// SPDX-License-Identifier: BSD-3-Clause

package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"time"
)

// certLife is how long a certificate is valid. A browser accepts one by its hash only if it is
// valid for less than 14 days and its key is of an elliptic curve.
const certLife = 13 * 24 * time.Hour

// Certificate makes a certificate for a server on this machine, and a pool that trusts only that
// one.
func Certificate() (own tls.Certificate, roots *x509.CertPool) {
	// None of these calls can fail: randomness is always available, and the certificate is valid.
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	// Browsers want a new serial number each time.
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	begins := time.Now().Add(-time.Hour) // the other machine's clock may be behind
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: begins, NotAfter: begins.Add(certLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, _ := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	parsed, _ := x509.ParseCertificate(der)
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
