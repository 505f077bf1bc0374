// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"io"
	"net"
	"testing"

	"agentd/runner-bin/internal/sshd/sshdtest"
)

func TestForwarding(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	echo := func(conn net.Conn) {
		_, _ = io.Copy(conn, conn)
		_ = conn.Close()
	}
	ask := func(t *testing.T, conn net.Conn) {
		t.Helper()
		defer conn.Close()
		_, _ = io.WriteString(conn, "ping")
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "ping" {
			t.Errorf("%q, %v", got, err)
		}
	}
	t.Run("local", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go echo(conn)
			}
		}()
		conn, err := client.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ask(t, conn)
		_ = listener.Close()
		if _, err := client.Dial("tcp", listener.Addr().String()); err == nil {
			t.Error("connected to a closed port")
		}
	})
	t.Run("remote", func(t *testing.T) {
		listener, err := client.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go echo(conn)
			}
		}()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ask(t, conn)
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		if _, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			t.Error("a cancelled forwarding is still open")
		}
	})
}
