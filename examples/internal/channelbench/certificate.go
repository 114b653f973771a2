// SPDX-License-Identifier: BSD-3-Clause

package channelbench

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

// Certificate makes one for a server on this machine, and who trusts it and no other.
func Certificate() (own tls.Certificate, roots *x509.CertPool, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return own, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), // nobody's clock need be right
		NotAfter:  time.Now().Add(24 * time.Hour),
		DNSNames:  []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return own, nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return own, nil, err
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots, nil
}
