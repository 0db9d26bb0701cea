package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	der  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "prewarm harness"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return &authority{key: key, cert: cert, der: der}, nil
}

// sign makes a key and a certificate for it; what it is good for stands in leaf.
func (a *authority) sign(leaf *x509.Certificate) (key *ecdsa.PrivateKey, der []byte, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("key: %w", err)
	}
	leaf.SerialNumber, leaf.NotBefore, leaf.NotAfter = big.NewInt(2), a.cert.NotBefore, a.cert.NotAfter
	leaf.KeyUsage = x509.KeyUsageDigitalSignature
	if der, err = x509.CreateCertificate(rand.Reader, leaf, a.cert, key.Public(), a.key); err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	return key, der, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// serverCertificate makes an authority, and a certificate by it for the loopback interface; ca is the authority in PEM.
func serverCertificate() (cert tls.Certificate, ca []byte, err error) {
	a, err := newAuthority()
	if err != nil {
		return cert, nil, err
	}
	key, der, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "127.0.0.1"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	if err != nil {
		return cert, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der, a.der}, PrivateKey: key}, certPEM(a.der), nil
}

// clientCertificate makes an authority, and a certificate by it for a member of a group of Kubernetes, all in PEM.
func clientCertificate(name, group string) (ca, cert, key []byte, err error) {
	a, err := newAuthority()
	if err != nil {
		return nil, nil, nil, err
	}
	private, der, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: []string{group}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("key: %w", err)
	}
	return certPEM(a.der), certPEM(der), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}), nil
}

// keyPair makes an RSA key and gives both halves in PEM, as the API server wants them for ServiceAccount tokens.
func keyPair() (private, public []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, fmt.Errorf("key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("key: %w", err)
	}
	private = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
