package kafkatest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// LibsVariable names the environment variable with the folder of Kafka's jars.
const LibsVariable = "BINNACLE_KAFKA_LIBS"

// libs returns the folder of Kafka's jars; it skips the test where there is none.
func libs(t testing.TB) string {
	t.Helper()
	folder := os.Getenv(LibsVariable)
	if folder == "" {
		t.Skipf("%s is not set: make kafka-it runs this", LibsVariable)
	}
	return folder
}

// Server is Apache Kafka in one process that is broker and controller, on free ports of the loopback address, with
// its own directory. It belongs to one goroutine.
type Server struct {
	libs   string
	dir    string
	addr   string
	secure string

	node       int
	controller string
	voters     []string // NODE@ADDRESS of the controllers of its cluster

	java *exec.Cmd
	log  *bytes.Buffer // java's, to be read when it has ended
	over chan struct{} // closed when it has
}

// New creates and formats a server's directory.
func New(libs string) (*Server, error) {
	servers, err := NewCluster(libs, 1)
	if err != nil {
		return nil, err
	}
	return servers[0], nil
}

// NewCluster creates the directories of servers of one cluster: offsets, and topics that ask for it, have a replica
// on each.
func NewCluster(libs string, servers int) (all []*Server, err error) {
	defer func() {
		if err != nil {
			for _, s := range all {
				s.Close()
			}
		}
	}()
	ports, err := freePorts(3 * servers)
	if err != nil {
		return nil, err
	}
	var voters []string
	for i := range servers {
		dir, err := os.MkdirTemp("", "kafka-it-")
		if err != nil {
			return all, err
		}
		s := &Server{libs: libs, dir: dir, node: i + 1, addr: ports[3*i], secure: ports[3*i+1], controller: ports[3*i+2]}
		all, voters = append(all, s), append(voters, fmt.Sprintf("%d@%s", s.node, s.controller))
	}
	for _, s := range all {
		s.voters = voters
		if err := s.format(); err != nil {
			return all, err
		}
	}
	return all, nil
}

// Credentials of the secure address for PLAIN and SCRAM. For OAUTHBEARER every token that has not expired is valid.
const (
	User     = "binnacle"
	Password = "right"
)

func (s *Server) format() error {
	if err := writeCertificate(s.path("cert.pem"), s.path("keystore.pem")); err != nil {
		return err
	}
	if err := s.write("server.properties", s.settings()...); err != nil {
		return err
	}
	if err := s.write("log4j2.properties", "rootLogger.level=warn", "rootLogger.appenderRef.out.ref=out",
		"appender.out.type=Console", "appender.out.name=out", "appender.out.layout.type=PatternLayout",
		"appender.out.layout.pattern=%d{ABSOLUTE} %p %c{1} %m%n"); err != nil {
		return err
	}
	const cluster = "YmlubmFjbGUtdGVzdHMtMQ" // any 16 bytes
	args := []string{"format", "-t", cluster, "-c", s.path("server.properties")}
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, User, Password))
	}
	out, err := s.command("kafka.tools.StorageTool", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("format the broker's directory: %w: %s", err, out)
	}
	return nil
}

func (s *Server) settings() []string {
	const secure, security = "listener.name.secure.", "org.apache.kafka.common.security."
	return []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", s.node),
		"controller.quorum.voters=" + strings.Join(s.voters, ","),
		"broker.heartbeat.interval.ms=500",
		"broker.session.timeout.ms=3000",
		"listeners=PLAINTEXT://" + s.addr + ",SECURE://" + s.secure + ",CONTROLLER://" + s.controller,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + s.path("log"),
		"num.partitions=1",
		"auto.create.topics.enable=false",
		"offsets.topic.num.partitions=4",
		fmt.Sprintf("offsets.topic.replication.factor=%d", len(s.voters)),
		"transaction.state.log.num.partitions=2",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
		secure + "ssl.keystore.type=PEM",
		secure + "ssl.keystore.location=" + s.path("keystore.pem"),
		secure + "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		secure + "plain.sasl.jaas.config=" + security + "plain.PlainLoginModule required user_" + User + `="` +
			Password + `";`,
		secure + "scram-sha-256.sasl.jaas.config=" + security + "scram.ScramLoginModule required;",
		secure + "scram-sha-512.sasl.jaas.config=" + security + "scram.ScramLoginModule required;",
		secure + "oauthbearer.sasl.jaas.config=" + security + "oauthbearer.OAuthBearerLoginModule required " +
			`unsecuredLoginStringClaim_sub="broker";`,
	}
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) write(name string, lines ...string) error {
	return os.WriteFile(s.path(name), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// quickJava is what makes short runs short.
var quickJava = []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}

func (s *Server) command(class string, args ...string) *exec.Cmd {
	ours := []string{"-Dlog4j2.configurationFile=" + s.path("log4j2.properties"), "-cp", filepath.Join(s.libs, "*"), class}
	return exec.Command("java", slices.Concat(quickJava, ours, args)...)
}

// Addr returns the host:port of the broker, the same in every run.
func (s *Server) Addr() string { return s.addr }

// Secure returns the address with TLS and SASL; Certificate is the file of its certificate.
func (s *Server) Secure() string { return s.secure }

// Certificate returns the file of the self-signed certificate, PEM.
func (s *Server) Certificate() string { return s.path("cert.pem") }

// startTimeout is how long the broker may take until it answers, on a machine that does a lot besides.
const startTimeout = 90 * time.Second

// Start runs the broker and waits until it answers.
func (s *Server) Start() error {
	s.log, s.over = new(bytes.Buffer), make(chan struct{})
	s.java = s.command("kafka.Kafka", s.path("server.properties"))
	s.java.Stdout, s.java.Stderr = s.log, s.log
	s.java.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.java.Start(); err != nil {
		s.java = nil
		return err
	}
	go func(java *exec.Cmd, over chan struct{}) {
		_ = java.Wait()
		close(over)
	}(s.java, s.over)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		if err := s.answers(ctx); err == nil {
			return nil
		}
		select {
		case <-s.over:
			s.java = nil
			return fmt.Errorf("the broker ended at once: %s", s.log)
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("the broker does not answer: %s", s.log)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// answers returns nil when the broker accepts connections.
func (s *Server) answers(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Kill ends the broker at once.
func (s *Server) Kill() {
	if s.java == nil {
		return
	}
	_ = s.java.Process.Kill()
	<-s.over
	s.java = nil
}

// Close ends the broker and removes its directory.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// freePorts returns loopback addresses that nobody listens on.
func freePorts(n int) (addrs []string, err error) {
	held := make([]net.Listener, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		held, addrs = append(held, l), append(addrs, l.Addr().String())
	}
	for _, l := range held {
		err = errors.Join(err, l.Close())
	}
	return addrs, err
}

// writeCertificate writes a certificate of 127.0.0.1 that signs itself, and a file with its key and it.
func writeCertificate(certFile, keystore string) error {
	server := httptest.NewTLSServer(nil) // has one
	defer server.Close()
	pair := server.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	if err := os.WriteFile(certFile, cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(keystore, append(key, cert...), 0o600)
}
