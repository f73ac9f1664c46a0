package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS says how to verify a sink's certificate, and which certificate to present. The zero value trusts the system's
// certificate authorities.
type TLS struct {
	CACert     string // file with the trusted certificate authorities
	Cert       string // file with the certificate to present
	Key        string // file with the private key of Cert
	ServerName string // expected name of the server, if it differs from the address
}

// Secure configures the TLS of a client's connections. If t lacks a setting, c keeps its current one.
func (t TLS) Secure(c *tls.Config) error {
	c.MinVersion = tls.VersionTLS12
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	if t.CACert != "" {
		pem, err := os.ReadFile(t.CACert)
		if err != nil {
			return fmt.Errorf("ca_cert: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca_cert: %s does not contain a certificate in PEM form", t.CACert)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return fmt.Errorf("cert and cert_key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return nil
}
