package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// proxy is the address of a server as shardctl knows it. What is done to connections is
// done to those that say they are shardctl's.
type proxy struct {
	listener net.Listener
	group    sync.WaitGroup

	mu     sync.Mutex
	target string // host:port
	links  map[*link]bool
	delay  time.Duration
	atEnd  func(name string) bool // asked when a COMMIT passes: cut here?
	closed bool
}

// link is one connection.
type link struct {
	client, server net.Conn
	name           string        // application_name
	frozen         chan struct{} // closed when a half-open connection ends; nil: it passes
	once           sync.Once
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, links: map[*link]bool{}}
	p.group.Go(p.accept)
	return p, nil
}

func (p *proxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.group.Go(func() { p.serve(conn) })
	}
}

func (p *proxy) serve(client net.Conn) {
	hello, name, err := startup(client)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if err != nil {
		_ = client.Close()
		return
	}
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server, name: name}
	if !p.add(l) {
		return
	}
	defer p.drop(l)
	if _, err := server.Write(hello); err != nil {
		return
	}
	p.group.Go(func() { p.pump(l, server, client, false) })
	p.pump(l, client, server, true)
}

// add registers a link; one that comes when the proxy is closed is closed too.
func (p *proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.cut()
		return false
	}
	p.links[l] = true
	return true
}

func (p *proxy) drop(l *link) {
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	l.cut()
}

// cut ends a connection at once, with a reset.
func (l *link) cut() {
	l.once.Do(func() {
		for _, c := range []net.Conn{l.client, l.server} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		}
	})
}

// pump passes on what one side says.
func (p *proxy) pump(l *link, from, to net.Conn, forth bool) {
	defer p.drop(l)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.pass(l, to, buffer[:n], forth) {
			return
		}
		if err != nil {
			return
		}
	}
}

// pass writes a piece on, as the faults of the moment want it.
func (p *proxy) pass(l *link, to net.Conn, piece []byte, forth bool) bool {
	p.mu.Lock()
	delay, atEnd, frozen := p.delay, p.atEnd, l.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
		return false
	}
	if delay > 0 && l.ours() {
		time.Sleep(delay) // the delay is what is played
	}
	if forth && atEnd != nil && l.ours() && commits(piece) && atEnd(l.name) {
		// No answer is so fast that the client hears it. The server has to get the COMMIT: an
		// end, no reset.
		_ = l.client.Close()
		_, _ = to.Write(piece)
		_ = l.server.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, l.server)
		return false
	}
	_, err := to.Write(piece)
	return err == nil
}

// commits reports whether a piece ends with the message that commits.
func commits(piece []byte) bool {
	return bytes.HasSuffix(bytes.ToLower(piece), []byte("commit\x00"))
}

func (l *link) ours() bool { return strings.HasPrefix(l.name, "shardctl ") }

// ourLinks lists shardctl's connections of the moment; the caller holds the lock.
func (p *proxy) ourLinks() (some []*link) {
	for l := range p.links {
		if l.ours() {
			some = append(some, l)
		}
	}
	return some
}

// cutAll ends shardctl's connections, and says whose they were.
func (p *proxy) cutAll() (names []string) {
	p.mu.Lock()
	some := p.ourLinks()
	p.mu.Unlock()
	for _, l := range some {
		names = append(names, l.name)
		l.cut()
	}
	return names
}

// freeze makes shardctl's connections half-open: nothing passes, nothing ends, until
// thaw is called, which resets them.
func (p *proxy) freeze() (names []string, thaw func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	some, end := p.ourLinks(), make(chan struct{})
	for _, l := range some {
		names = append(names, l.name)
		l.frozen = end
	}
	return names, func() {
		for _, l := range some {
			l.cut()
		}
		close(end)
	}
}

// slow delays each piece from now on.
func (p *proxy) slow(d time.Duration) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
	for _, l := range p.ourLinks() {
		names = append(names, l.name)
	}
	return names
}

// whenCommitting sets what is asked at each COMMIT; nil is nothing.
func (p *proxy) whenCommitting(ask func(name string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.atEnd = ask
}

// lead moves the address to another server; what was connected is cut.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	p.target = target
	var all []*link
	for l := range p.links {
		all = append(all, l)
	}
	p.mu.Unlock()
	for _, l := range all {
		l.cut()
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	target := p.target
	p.mu.Unlock()
	p.lead(target)
	p.group.Wait()
}

// Codes that stand in the place of a protocol version.
const (
	cancelCode = 80877102
	sslCode    = 80877103
	gssCode    = 80877104
)

// startup reads what a client says first, and its application_name.
func startup(client net.Conn) (hello []byte, name string, err error) {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(client, head); err != nil {
			return nil, "", err
		}
		size, code := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		if size < 8 || size > 10_000 {
			return nil, "", errors.New("not PostgreSQL's protocol")
		}
		if code == sslCode || code == gssCode {
			if _, err := client.Write([]byte("N")); err != nil {
				return nil, "", err
			}
			continue
		}
		rest := make([]byte, size-8)
		if _, err := io.ReadFull(client, rest); err != nil {
			return nil, "", err
		}
		if code == cancelCode {
			return append(head, rest...), "", nil
		}
		words := strings.Split(string(rest), "\x00")
		for i := 0; i+1 < len(words); i += 2 {
			if words[i] == "application_name" {
				name = words[i+1]
			}
		}
		return append(head, rest...), name, nil
	}
}
