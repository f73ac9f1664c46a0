package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/config"
	"replicator/internal/kafkaclient"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const secret = "hunter2-must-not-show"

// secureBroker starts a broker that also listens with TLS and asks for a password there. It returns the plain and the
// secure address, and the file with the certificate authority.
func secureBroker(t *testing.T) (plain, secure, authority string) {
	t.Helper()
	chain, key := certificate(t)
	port, more := freePort(t), freePort(t)
	settings := []string{
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.2:%d,SECURE://127.0.0.1:%d", port, port+1, more),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
		"listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required " +
			`user_app="` + secret + `";`,
		"listener.name.secure.ssl.keystore.type=PEM",
		"listener.name.secure.ssl.keystore.certificate.chain=" + chain,
		"listener.name.secure.ssl.keystore.key=" + key,
	}
	for _, name := range []string{"256", "512"} {
		settings = append(settings, "listener.name.secure.scram-sha-"+name+
			".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
	}
	var args []string
	for _, s := range settings {
		args = append(args, "--override", s)
	}
	// servers.Start pings the broker without a password, by the plain listener.
	s, err := servers.Start(t.Context(), servers.Options{Kind: servers.Kafka, Port: port, Small: true, Args: args})
	if err != nil {
		servertest.Unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	authority = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, []byte(chain), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.Addr(), fmt.Sprintf("127.0.0.1:%d", more), authority
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (chain, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "broker"}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &own.PublicKey, own)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", private)
}

func TestABrokerThatAsksForAPasswordAndTLSIsLoggedInTo(t *testing.T) {
	plain, secure, authority := secureBroker(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(plain))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		altered, err := kadm.NewClient(client).AlterUserSCRAMs(t.Context(), nil,
			[]kadm.UpsertSCRAM{{User: "app", Mechanism: m, Iterations: 4096, Password: secret}})
		if err != nil || altered.Error() != nil {
			t.Fatal(err, altered.Error())
		}
	}
	for _, mechanism := range []string{kafkaclient.Plain, kafkaclient.ScramSHA256, kafkaclient.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			v := favorites()
			v.Settings = Settings{Topic: servertest.Name(), Create: true, Partitions: 1, Replication: 1}
			open := func(password, ca string) (*Sink, []replicator.Finding) {
				t.Helper()
				k := config.Kafka{Brokers: []string{secure}, TLS: true, Mechanism: mechanism, Login: config.Login{
					Username: "app", Password: config.Secret(password), TLS: config.TLS{CACert: ca}}}
				access, err := k.Access()
				if err != nil {
					t.Fatal(err)
				}
				s := (&cluster{t: t, access: access}).sink(t, v)
				return s, s.Check(t.Context(), nil)
			}
			s, findings := open(secret, authority)
			if len(findings) != 1 || findings[0].Level != replicator.OK {
				t.Fatalf("%+v", findings)
			}
			target, err := s.Open(t.Context(), "", []*replicator.View{v})
			if err != nil {
				t.Fatal(err)
			}
			apply(t, target, put(t, 1, 1, 1))
			for what, wrong := range map[string][2]string{
				"a wrong password": {"wrong-" + secret, authority}, "a certificate of nobody's": {secret, ""},
			} {
				_, findings := open(wrong[0], wrong[1])
				if len(findings) != 1 || findings[0].Level != replicator.Fail || findings[0].Fix == "" ||
					strings.Contains(fmt.Sprint(findings), secret) {
					t.Errorf("%s: %+v", what, findings)
				}
			}
		})
	}
}
