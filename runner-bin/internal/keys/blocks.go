// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"strings"
)

// The marks around what we write into the user's files. They are found again on the next start, so that a home that
// outlives its session does not collect the keys and hosts of dead clusters.
const (
	blockBegin = "# BEGIN bai-runner cluster"
	blockEnd   = "# END bai-runner cluster"
)

// withBlock returns the text with our block replaced by the body, or added in front or at the end. An empty body removes
// the block. Everything outside the marks stays as it is.
func withBlock(text, body string, front bool) string {
	text = withoutBlock(text)
	if body == "" {
		return text
	}
	block := blockBegin + "\n" + strings.TrimRight(body, "\n") + "\n" + blockEnd + "\n"
	if front {
		return block + text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + block
}

// withoutBlock drops every block of ours. A begin without an end is only a stray line: dropping the rest of the file
// with it would lose what the user wrote.
func withoutBlock(text string) string {
	var out strings.Builder
	for text != "" {
		before, rest, found := cutLine(text, blockBegin)
		out.WriteString(before)
		if !found {
			break
		}
		if _, after, ended := cutLine(rest, blockEnd); ended {
			rest = after
		}
		text = rest
	}
	return out.String()
}

// cutLine splits the text around the first line that equals the mark.
func cutLine(text, mark string) (before, after string, found bool) {
	pos := 0
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == mark {
			return text[:pos], text[pos+len(line):], true
		}
		pos += len(line)
	}
	return text, "", false
}

// Cluster is what is needed to reach the other kernels of a session.
type Cluster struct {
	// Hosts are the kernels' exact names.
	Hosts []string
	// Roles are the stems of those names.
	Roles []string
	// Endpoints say where hosts are reached that are not reached under their own name.
	Endpoints map[string]Endpoint
	// IdentityFile is the cluster's private key.
	IdentityFile string
}

// Endpoint is an address and a port.
type Endpoint struct {
	Address string
	Port    int
}

// clientConfig returns the body of our block in ~/.ssh/config. The first value of an option wins in that file, so the
// block stands in front of the user's own, and ends by opening the scope of all hosts again.
func (c Cluster) clientConfig(port int) string {
	var b strings.Builder
	stanza := func(patterns string, lines ...string) {
		fmt.Fprintf(&b, "Host %s\n", patterns)
		for _, line := range append(lines,
			"User work",
			"StrictHostKeyChecking no",
			"UserKnownHostsFile /dev/null",
			"LogLevel ERROR",
			"IdentityFile "+c.IdentityFile) {
			fmt.Fprintf(&b, "\t%s\n", line)
		}
	}
	var plain []string
	for _, host := range c.Hosts {
		if e, ok := c.Endpoints[host]; ok {
			stanza(host, "HostName "+e.Address, fmt.Sprintf("Port %d", e.Port))
			continue
		}
		plain = append(plain, host)
	}
	if len(c.Endpoints) == 0 {
		// Numbers only, up to three digits: main* would also catch the main.example.com of somebody.
		for _, role := range c.Roles {
			plain = append(plain, role+"?", role+"??", role+"???")
		}
	}
	if len(plain) > 0 {
		stanza(strings.Join(plain, " "), fmt.Sprintf("Port %d", port))
	}
	if b.Len() > 0 {
		b.WriteString("Host *\n")
	}
	return b.String()
}
