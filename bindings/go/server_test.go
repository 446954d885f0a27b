package portalock

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is a redis-server of a test's own on a unix socket. It dies with the test, however that ends.
type server struct {
	dir     string
	process *exec.Cmd
}

func launch() (*server, error) {
	// Short, since the path of a unix socket has to be.
	dir, err := os.MkdirTemp("", "pl")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if err := s.run(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) run() error {
	s.process = exec.Command("redis-server", "--port", "0", "--unixsocket", s.socket(),
		"--save", "", "--appendonly", "no", "--dir", s.dir, "--loglevel", "warning")
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		return err
	}
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err = s.command("PING"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("redis-server does not answer: %w", err)
}

func (s *server) kill() {
	if s.process != nil && s.process.Process != nil {
		s.process.Process.Kill()
		s.process.Wait()
	}
}

// pause stops the server without a word to its clients, until resume.
func (s *server) pause() { s.process.Process.Signal(syscall.SIGSTOP) }

func (s *server) resume() { s.process.Process.Signal(syscall.SIGCONT) }

func (s *server) stop() {
	s.kill()
	os.RemoveAll(s.dir)
}

func (s *server) socket() string { return filepath.Join(s.dir, "s") }

func (s *server) url() string { return "unix://" + s.socket() }

// command sends one command, whose words have no spaces, and reads its reply as text.
func (s *server) command(words string) (string, error) {
	connection, err := net.Dial("unix", s.socket())
	if err != nil {
		return "", err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintf(connection, "%s\r\n", words); err != nil {
		return "", err
	}
	return reply(bufio.NewReader(connection))
}

// reply reads one reply of RESP2; the items of a list come as lines.
func reply(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	if kind == '+' || kind == ':' {
		return text, nil
	}
	if kind == '-' {
		return "", fmt.Errorf("redis: %s", text)
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 0 {
		return "", err
	}
	if kind == '$' {
		bulk := make([]byte, count+2)
		_, err = io.ReadFull(from, bulk)
		return string(bulk[:count]), err
	}
	items := make([]string, count)
	for i := range items {
		if items[i], err = reply(from); err != nil {
			return "", err
		}
	}
	return strings.Join(items, "\n"), nil
}

// members is how many are subscribed to a channel.
func (s *server) members(t testing.TB, channel string) int {
	t.Helper()
	text, err := s.command("PUBSUB NUMSUB " + channel)
	if err != nil {
		t.Fatal(err)
	}
	count, err := strconv.Atoi(text[strings.LastIndexByte(text, '\n')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// sever ends the connections of all members of a channel, and tells how many there were.
func (s *server) sever(t testing.TB, channel string) int {
	t.Helper()
	list, err := s.command("CLIENT LIST")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, line := range strings.Split(list, "\n") {
		if !strings.Contains(line, " name="+channel+"-lock-") {
			continue
		}
		id := strings.TrimPrefix(strings.Fields(line)[0], "id=")
		if _, err := s.command("CLIENT KILL ID " + id); err != nil {
			t.Fatal(err)
		}
		killed++
	}
	return killed
}

func start(t testing.TB) *server {
	t.Helper()
	s, err := launch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// client is closed before its server stops.
func (s *server) client(t testing.TB, options ...ClientOption) *Client {
	t.Helper()
	client, err := NewClient(s.url(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func named(t testing.TB, client *Client, name string, options ...MutexOption) *Mutex {
	t.Helper()
	mutex, err := client.NewMutex(name, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mutex.Close() })
	return mutex
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something is true, and fails if that takes more than 10 s.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func closes(t testing.TB, what string, channel <-chan struct{}) {
	t.Helper()
	if channel == nil {
		t.Fatalf("no channel: %s", what)
	}
	select {
	case <-channel:
	case <-time.After(10 * time.Second):
		t.Fatalf("not in time: %s", what)
	}
}

// exampleURL is where the examples of the documentation find a server.
var exampleURL string

func TestMain(m *testing.M) {
	s, err := launch()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	exampleURL = s.url()
	code := m.Run()
	s.stop()
	os.Exit(code)
}
