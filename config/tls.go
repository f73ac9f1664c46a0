package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS says how to check a sink's certificate, and which certificate to present. The zero value uses the system's
// authorities.
type TLS struct {
	CACert     string // file of the authorities to trust
	Cert       string // file of the certificate to show
	Key        string // file of its key
	ServerName string // the expected name, if it differs from the address
}

// Secure configures a client's connections. Settings that t doesn't have stay unchanged.
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
			return fmt.Errorf("ca_cert: %s holds no certificate in PEM form", t.CACert)
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
