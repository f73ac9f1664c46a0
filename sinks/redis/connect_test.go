package redis

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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/config"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// works returns a sink with the configuration, after it has opened a view and written an entry.
func works(t *testing.T, c Config) *Sink {
	t.Helper()
	sink := newSink(t, c)
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	})
	target, err := sink.Open(t.Context(), "", []*replicator.View{view("h", "hash", "h:{k}", "a")})
	if err != nil {
		t.Fatal(err)
	}
	apply(t, target, put(cellOf(t, "cell", "users", "x"), 1, replicator.Entry{Key: "h:x", Fields: []any{"1"}}))
	if got := sink.rdb.HGet(t.Context(), "h:x", "a").Val(); got != "1" {
		t.Errorf("it holds %q", got)
	}
	return sink
}

func TestASocketLeadsToTheServer(t *testing.T) {
	dir, err := os.MkdirTemp("", "redis") // t.TempDir may be too long: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "socket")
	servertest.Own(t, servers.Redis7, "--unixsocket", socket)
	works(t, Config{URLs: []string{"unix://" + socket + "?db=3"}})
}

func TestALoginOfItsOwnIsEnough(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	// The permissions that docs/operating.md says the user needs.
	err := client(t, s).Do(t.Context(), "ACL", "SETUSER", "replicator", "on", ">secret", "~*", "+@read", "+@write",
		"+@scripting",
		"+@transaction", "+@connection", "-@dangerous", "+info").Err()
	if err != nil {
		t.Fatal(err)
	}
	works(t, Config{URLs: []string{s.DSN("0")}, Username: "replicator", Password: "secret"})
}

func TestTLSIsCheckedFromBothSides(t *testing.T) {
	dir := t.TempDir()
	authority := newAuthority(t, dir)
	server, key := authority.issue(t, dir, "server")
	cert, certKey := authority.issue(t, dir, "client")
	port := freePort(t)
	servertest.Own(t, servers.Redis7, "--tls-port", strconv.Itoa(port), "--tls-cert-file", server, "--tls-key-file", key,
		"--tls-ca-cert-file", authority.file, "--tls-auth-clients", "yes")
	urls := []string{fmt.Sprintf("rediss://127.0.0.1:%d/0", port)}
	good := Config{URLs: urls, TLS: config.TLS{CACert: authority.file, Cert: cert, Key: certKey}}
	works(t, good)

	other := newAuthority(t, t.TempDir())
	for name, c := range map[string]Config{
		"an authority that nobody named": {URLs: urls, TLS: config.TLS{Cert: cert, Key: certKey}},
		"another authority":              {URLs: urls, TLS: config.TLS{CACert: other.file, Cert: cert, Key: certKey}},
		"another name": {URLs: urls, TLS: config.TLS{CACert: authority.file, Cert: cert, Key: certKey,
			ServerName: "elsewhere"}},
		"no certificate of the client":     {URLs: urls, TLS: config.TLS{CACert: authority.file}},
		"a plain connection to a TLS port": {URLs: []string{fmt.Sprintf("redis://127.0.0.1:%d/0", port)}},
	} {
		t.Run(name, func(t *testing.T) {
			sink := newSink(t, c)
			defer sink.Close()
			if _, err := sink.Open(t.Context(), "", []*replicator.View{view("h", "hash", "h:{k}", "a")}); err == nil {
				t.Error("it is let in")
			} else {
				t.Log(err)
			}
		})
	}
}

func TestSentinelsLeadThroughAFailover(t *testing.T) {
	master := servertest.Own(t, servers.Redis7)
	servertest.Own(t, servers.Redis7, "--replicaof", "127.0.0.1 "+strconv.Itoa(master.Port), "--repl-diskless-sync-delay",
		"0")
	sentinel := startSentinel(t, master)
	rdb := client(t, master)
	wait(t, "the replica has joined", func() error {
		if n := rdb.Do(t.Context(), "WAIT", "1", "100").Val(); n != int64(1) {
			return fmt.Errorf("there are %v", n)
		}
		return nil
	})
	sink := works(t, Config{URLs: []string{sentinel}, Sentinel: "cell-cache"})
	wait(t, "the replica has what was written, and the sentinel knows it", func() error {
		if n := rdb.Do(t.Context(), "WAIT", "1", "100").Val(); n != int64(1) {
			return fmt.Errorf("there are %v", n)
		}
		return knowsReplica(t, sentinel)
	})
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	v := []*replicator.View{view("h", "hash", "h:{k}", "a")}
	op := put(cellOf(t, "cell", "users", "x"), 2, replicator.Entry{Key: "h:x", Fields: []any{"2"}})
	wait(t, "the replica has taken over", func() error {
		target, err := sink.Open(t.Context(), "", v)
		if err == nil {
			_, err = target.Apply(t.Context(), []replicator.Op{op})
		}
		if replicator.IsFatal(err) {
			t.Fatalf("while the master is away: %v", err)
		}
		return err
	})
	if got := sink.rdb.HGet(t.Context(), "h:x", "a").Val(); got != "2" {
		t.Errorf("it holds %q", got)
	}
}

func TestAReplicaIsTemporarilyNoGood(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	sink := works(t, Config{URLs: []string{s.DSN("0")}})
	target, err := sink.Open(t.Context(), "", []*replicator.View{view("h", "hash", "h:{k}", "a")})
	if err != nil {
		t.Fatal(err)
	}
	rdb := client(t, s)
	if err := rdb.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	op := put(cellOf(t, "cell", "users", "x"), 2, replicator.Entry{Key: "h:x", Fields: []any{"2"}})
	if _, err := target.Apply(t.Context(), []replicator.Op{op}); err == nil || replicator.IsFatal(err) {
		t.Errorf("a replica says %v", err)
	} else {
		t.Log(err)
	}
	if err := rdb.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	apply(t, target, op)
}

// refusal is an error of the server as the client returns it.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

func TestWhatPassesByItselfIsTriedAgain(t *testing.T) {
	for text, fatal := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                                         false,
		"CLUSTERDOWN The cluster is down":                                                        false,
		"CLUSTERDOWN Hash slot not served":                                                       false,
		"READONLY You can't write against a read only replica.":                                  false,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                false,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":       false,
		"OOM command not allowed when used memory > 'maxmemory'.":                                false,
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to":        false,
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": false,
		"NOAUTH Authentication required.":                                                        true,
		"NOPERM this user has no permissions to run the 'hset' command":                          true,
		"ERR user_script:422: ERR ACL failure in script: User rep has no permissions to run it":  true,
		"ERR unknown command 'EVALSHA', with args beginning with: 'secret' '0' ":                 true,
		"ERR Unknown Redis command called from script script: x, on @user_script:1.":             true,
	} {
		err := classify(refusal(text), "applying")
		if replicator.IsFatal(err) != fatal {
			t.Errorf("%s is fatal: %v", text, replicator.IsFatal(err))
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("it shows what was sent: %v", err)
		}
	}
}

func TestAClusterThatLostANodeIsWaitedFor(t *testing.T) {
	nodes, _, c := startCluster(t, servers.Redis7)
	sink := works(t, c)
	target, err := sink.Open(t.Context(), "", []*replicator.View{view("h", "hash", "h:{k}", "a")})
	if err != nil {
		t.Fatal(err)
	}
	var ops []replicator.Op
	for n := range int64(50) {
		ops = append(ops, put(cellOf(t, "cell", "users", n), 1,
			replicator.Entry{Key: fmt.Sprint("h:", n), Fields: []any{"1"}}))
	}
	if err := nodes[2].Kill(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the cluster is down", func() error {
		_, err := target.Apply(t.Context(), ops)
		if replicator.IsFatal(err) {
			t.Fatalf("without a node: %v", err)
		}
		if err == nil {
			return fmt.Errorf("it is not")
		}
		t.Log(err)
		return nil
	})
	if err := nodes[2].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, "the cluster is whole again", func() error {
		_, err := target.Apply(t.Context(), ops)
		if replicator.IsFatal(err) {
			t.Fatalf("after the node came back: %v", err)
		}
		return err
	})
}

// startSentinel starts a sentinel that watches the master by the name cell-cache, and returns its URL.
func startSentinel(t *testing.T, master *servers.Server) string {
	t.Helper()
	program, err := servers.Program(servers.Redis7, "redis-server")
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor cell-cache 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds cell-cache 500\nsentinel failover-timeout cell-cache 2000\n", port, dir,
		master.Port)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, file, "--sentinel")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return fmt.Sprintf("redis://127.0.0.1:%d", port)
}

// knowsReplica is nil once the sentinel knows a replica that it could choose.
func knowsReplica(t *testing.T, sentinel string) error {
	cli, err := servers.Program(servers.Redis7, "redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), cli, "-u", sentinel, "SENTINEL", "CKQUORUM",
		"cell-cache").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), cli, "-u", sentinel, "SENTINEL", "REPLICAS", "cell-cache").CombinedOutput()
	if err == nil && len(out) < 100 {
		err = fmt.Errorf("it knows none: %s", out)
	}
	return err
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// authority issues certificates.
type authority struct {
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, dir string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(dir, "ca.pem")}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue writes a certificate for 127.0.0.1 and its key.
func (a *authority) issue(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	writePEM(t, cert, "CERTIFICATE", der)
	writePEM(t, key, "EC PRIVATE KEY", private)
	return cert, key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
