// SPDX-License-Identifier: Apache-2.0

// Package sshclient is the ssh command for images that have none, and the connections of scp and sftp. It understands
// the command line and the configuration of OpenSSH as far as scripts and MPI launchers use them, and reaches the
// session's own hosts without any configuration.
package sshclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/accounts"
	"agentd/runner-bin/internal/identity"
	"agentd/runner-bin/internal/keys"
	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/say"
)

const (
	// connectTime bounds connecting unless ConnectTimeout says otherwise.
	connectTime = 30 * time.Second
	// loginTime bounds the handshake; a person may have to type a password in it.
	loginTime = 120 * time.Second
	keepAlive = 15 * time.Second
)

// Client connects to hosts for one user.
type Client struct {
	Layout layout.Layout
	Getenv func(string) string
	// Home is where ~/.ssh lies.
	Home string
	// Log takes messages; the caller's prefix names the command.
	Log *say.Printer
	// Ask reads a secret from the person at the terminal, nil when there is none.
	Ask func(prompt string) (string, error)
}

// New returns the client of the process's own user.
func New(log *say.Printer) *Client {
	home := os.Getenv("HOME")
	if home == "" {
		home = layout.Work
	}
	return &Client{Getenv: os.Getenv, Home: home, Log: log, Ask: terminalAsk()}
}

// target is where and how to connect.
type target struct {
	settings
	alias   string
	address string // host:port
	user    string
	// cluster is set for the hosts of our own session.
	cluster bool
}

// resolve works out the target: command line, configuration, and what we know of the session's hosts, in this order.
func (c *Client) resolve(o Options) (*target, error) {
	t := &target{alias: o.Host}
	if o.User != "" {
		t.add("User", o.User)
	}
	if o.Port != 0 {
		t.add("Port", strconv.Itoa(o.Port))
	}
	for _, file := range o.Identities {
		t.add("IdentityFile", file)
	}
	for _, value := range o.Values {
		name, value := splitSetting(value)
		t.add(name, value)
	}
	reader := configReader{host: o.Host, home: c.Home, into: &t.settings}
	switch o.ConfigFile {
	case "":
		reader.file(c.Home+"/.ssh/config", 0)
		reader.file(c.Layout.At("/etc/ssh/ssh_config"), 0)
	case "none":
	default:
		if _, err := os.Stat(o.ConfigFile); err != nil {
			return nil, err
		}
		reader.file(o.ConfigFile, 0)
	}
	c.addCluster(t)

	for _, name := range []string{"ProxyCommand", "ProxyJump"} {
		if value := t.get(name); value != "" && !t.is(name, "none") {
			return nil, fmt.Errorf("%s is not supported by this built-in ssh; install openssh-client in the image for it", name)
		}
	}
	host := t.get("HostName")
	if host == "" {
		host = o.Host
	}
	host = strings.ReplaceAll(host, "%h", o.Host)
	port := t.get("Port")
	if port == "" {
		port = "22"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("bad port %q for host %s", port, o.Host)
	}
	t.address = net.JoinHostPort(host, port)
	if t.user = t.get("User"); t.user == "" {
		t.user = c.localUser()
	}
	return t, nil
}

// addCluster adds what makes a host of our session reachable where the configuration does not say it.
func (c *Client) addCluster(t *target) {
	cluster, ok, err := keys.ReadCluster(c.Layout, c.Getenv)
	if err != nil {
		c.Log.Linef("cluster: %v", err)
	}
	if !ok || !slices.Contains(cluster.Hosts, t.alias) {
		return
	}
	t.cluster = true
	port := layout.SSHPort
	if e, ok := cluster.Endpoints[t.alias]; ok {
		t.add("HostName", e.Address)
		port = e.Port
	}
	t.add("Port", strconv.Itoa(port))
	t.add("User", accounts.Name)
	t.add("IdentityFile", cluster.IdentityFile)
}

func (c *Client) localUser() string {
	if user, ok := identity.ReadDatabase(c.Layout.At("/etc")).UserByID(os.Getuid()); ok {
		return user.Name
	}
	if user := c.Getenv("USER"); user != "" {
		return user
	}
	return accounts.Name
}

// Connect logs in to the host.
func (c *Client) Connect(o Options) (*ssh.Client, error) {
	t, err := c.resolve(o)
	if err != nil {
		return nil, err
	}
	return c.connect(o, t)
}

func (c *Client) connect(o Options, t *target) (*ssh.Client, error) {
	timeout := connectTime
	if seconds, err := strconv.Atoi(t.get("ConnectTimeout")); err == nil && seconds > 0 {
		timeout = time.Duration(seconds) * time.Second
	}
	network := o.Network
	if network == "" {
		network = "tcp"
	}
	host, port, _ := net.SplitHostPort(t.address)
	dialer := net.Dialer{Timeout: timeout, KeepAlive: keepAlive}
	if o.Verbose {
		c.Log.Linef("connecting to %s port %s as %s", host, port, t.user)
	}
	conn, err := dialer.Dial(network, t.address)
	if err != nil {
		return nil, fmt.Errorf("connect to host %s port %s: %w", host, port, rootCause(err))
	}
	config := &ssh.ClientConfig{User: t.user, Auth: c.authMethods(t)}
	if err := c.hostKeys(t, config); err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(loginTime))
	sc, channels, requests, err := ssh.NewClientConn(conn, t.address, config)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s@%s: %w", t.user, host, plain(err))
	}
	_ = conn.SetDeadline(time.Time{})
	return ssh.NewClient(sc, channels, requests), nil
}

// rootCause drops the repetition of the address from a dialling error.
func rootCause(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// plain makes the library's commonest failure readable.
func plain(err error) error {
	if strings.Contains(err.Error(), "unable to authenticate") {
		return errors.New("permission denied: the host accepts none of the keys or passwords that were tried")
	}
	return err
}
