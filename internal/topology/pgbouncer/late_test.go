package pgbouncer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardctl/shardctl/internal/pgtest"
	"github.com/shardctl/shardctl/migrate"
)

// testPauseThatArrivesLate has a network that delivers what was said on the connection
// of PAUSE only after everybody has given up and released.
func testPauseThatArrivesLate(t *testing.T, dbs []*pgtest.Database) {
	for name, extra := range map[string]string{"bare": "", "by entry": "other = {source}\n"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, dbs, 2, 1, lines(2)+extra)
			network := newSlowNetwork(t, w.spec.Topology[0].Instances[0].AdminDSN.Reveal())
			w.spec.Topology[0].Instances[0].AdminDSN = migrate.Secret(network.dsn)
			r := w.router()
			if err := r.Pause(within(t, 200*time.Millisecond), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v", err)
			}
			w.wantServed()
			close(network.deliver)
			pgtest.Eventually(t, 10*time.Second, func() bool {
				log, err := os.ReadFile(w.poolers[0].LogFile())
				return err == nil && bytes.Contains(log, []byte("PAUSE "))
			})
			w.wantServed()
		})
	}
}

// slowNetwork passes everything on, but a PAUSE and what follows it on its connection
// only when it is told to deliver.
type slowNetwork struct {
	dsn     string
	deliver chan struct{} // closed by the test
}

func newSlowNetwork(t *testing.T, dsn string) *slowNetwork {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &slowNetwork{deliver: make(chan struct{})}
	server := u.Host
	u.Host = listener.Addr().String()
	n.dsn = u.String()
	var g errgroup.Group
	g.Go(func() error {
		for {
			client, err := listener.Accept()
			if err != nil {
				return nil // closed at the end of the test
			}
			g.Go(func() error { return n.pass(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		_ = g.Wait()
	})
	return n
}

func (n *slowNetwork) pass(client net.Conn, address string) error {
	server, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	for buffer := make([]byte, 64<<10); ; {
		size, err := client.Read(buffer)
		if bytes.Contains(buffer[:size], []byte("PAUSE")) {
			<-n.deliver
		}
		if _, werr := server.Write(buffer[:size]); err != nil || werr != nil {
			break
		}
	}
	_ = server.(*net.TCPConn).CloseWrite()
	<-answers
	_ = server.Close()
	return nil
}
