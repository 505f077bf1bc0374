// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"io"
	"net"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

// dialTime bounds connecting to a forwarding target.
const dialTime = 15 * time.Second

// maxForwards bounds the remote forwardings of one connection.
const maxForwards = 32

// globalRequests answers keep-alives and remote forwarding.
func (c *connection) globalRequests(requests <-chan *ssh.Request) {
	for request := range requests {
		switch request.Type {
		case "tcpip-forward":
			port, ok := c.listen(request.Payload)
			var reply []byte
			if ok && port != 0 {
				reply = ssh.Marshal(struct{ Port uint32 }{port})
			}
			c.reply(request, ok, reply)
		case "cancel-tcpip-forward":
			c.reply(request, c.unlisten(request.Payload), nil)
		case "keepalive@openssh.com":
			c.reply(request, true, nil)
		default:
			c.reply(request, false, nil)
		}
	}
}

func (c *connection) reply(request *ssh.Request, ok bool, payload []byte) {
	if request.WantReply {
		_ = request.Reply(ok, payload)
	}
}

// directTCP connects a channel to where the client wants it: local forwarding.
func (c *connection) directTCP(ctx context.Context, channel ssh.NewChannel) {
	var target struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(channel.ExtraData(), &target) != nil {
		_ = channel.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	if !c.permits(noForwarding) {
		_ = channel.Reject(ssh.Prohibited, "this key may not forward ports")
		return
	}
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(target.Host, strconv.Itoa(int(target.Port))))
	if err != nil {
		_ = channel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	stream, requests, err := channel.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	splice(stream, requests, conn)
}

// splice copies both ways until both directions have ended, passing on each end of stream. A channel that was closed
// altogether, which ends its requests, has nobody left to send to.
func splice(stream ssh.Channel, requests <-chan *ssh.Request, conn net.Conn) {
	closed, sent, received := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		ssh.DiscardRequests(requests)
	}()
	go func() {
		defer close(sent)
		_, _ = io.Copy(stream, conn)
		_ = stream.CloseWrite()
	}()
	go func() {
		defer close(received)
		_, err := io.Copy(conn, stream)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil {
			_ = half.CloseWrite()
		} else {
			_ = conn.Close()
		}
	}()
	<-received // after what had arrived before the channel closed, if it did
	select {
	case <-sent:
	case <-closed:
		_ = conn.Close()
		<-sent
	}
	_ = stream.Close()
	_ = conn.Close()
}

// forwardRequest is the payload of tcpip-forward and its opposite.
type forwardRequest struct {
	Host string
	Port uint32
}

// listen opens a port in the container for the client: remote forwarding. It returns the port when the client left the
// choice to us.
func (c *connection) listen(payload []byte) (uint32, bool) {
	var want forwardRequest
	if ssh.Unmarshal(payload, &want) != nil || want.Port > 65535 || !c.permits(noForwarding) {
		return 0, false
	}
	host := want.Host
	if host == "localhost" || host == "" {
		host = "127.0.0.1" // reachable beyond the container only when asked for by address
	}
	if host == "*" {
		host = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forwards == nil || len(c.forwards) >= maxForwards {
		return 0, false
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(want.Port))))
	if err != nil {
		return 0, false
	}
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		_ = listener.Close()
		return 0, false
	}
	chosen := uint32(0)
	if want.Port == 0 {
		chosen = uint32(tcp.Port)
		want.Port = chosen
	}
	c.forwards[want.key()] = listener
	c.wg.Go(func() {
		c.acceptForward(listener, want)
	})
	return chosen, true
}

func (f forwardRequest) key() string { return net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))) }

func (c *connection) unlisten(payload []byte) bool {
	var want forwardRequest
	if ssh.Unmarshal(payload, &want) != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	listener, ok := c.forwards[want.key()]
	if ok {
		delete(c.forwards, want.key())
		_ = listener.Close()
	}
	return ok
}

func (c *connection) stopForwards() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, listener := range c.forwards {
		_ = listener.Close()
	}
	c.forwards = nil
}

// acceptForward opens a channel to the client for every connection.
func (c *connection) acceptForward(listener net.Listener, want forwardRequest) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		origin, ok := conn.RemoteAddr().(*net.TCPAddr)
		if !ok {
			_ = conn.Close()
			continue
		}
		payload := struct {
			Host       string
			Port       uint32
			OriginHost string
			OriginPort uint32
		}{want.Host, want.Port, origin.IP.String(), uint32(origin.Port)}
		c.wg.Go(func() {
			stream, requests, err := c.conn.OpenChannel("forwarded-tcpip", ssh.Marshal(payload))
			if err != nil {
				_ = conn.Close()
				return
			}
			splice(stream, requests, conn)
		})
	}
}
