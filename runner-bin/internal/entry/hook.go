// SPDX-License-Identifier: Apache-2.0

package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/say"
)

// ReportArg is the argument with which the shell that sourced the image's hook calls this binary back.
const ReportArg = "report-environment"

// reportFD is the descriptor that carries the report; high, for scripts like to use the low ones.
const reportFD = 9

// report is what a sourced script may have changed in its shell.
type report struct {
	Env   [][]byte `json:"env"` // bytes: values need not be UTF-8
	Dir   string   `json:"dir"`
	Umask int      `json:"umask"`
}

// imageBootstrap sources the image's own start script as root and takes over what it exported. A script that exits ends
// the start with its code.
func (e *Entry) imageBootstrap(out *say.Printer, env environment, set settings) (environment, int, bool) {
	script := e.Layout.At(layout.ImageBootstrap)
	info, err := os.Stat(script)
	if err != nil {
		return env, 0, false
	}
	if !layout.Executable(script) {
		out.Linef("%s is not an executable file (mode %s): skipped", layout.ImageBootstrap, info.Mode())
		return env, 0, false
	}
	sh := e.Layout.Sh()
	if sh == "" {
		out.Linef("%s skipped: the image has no shell to run it", layout.ImageBootstrap)
		return env, 0, false
	}

	input := append(environment(nil), env...)
	input.set("LOCAL_USER_ID", strconv.Itoa(set.uid))
	input.set("LOCAL_GROUP_ID", strconv.Itoa(set.gid))
	got, err := e.source(e.Layout.At(sh), script, input)
	var exit *exec.ExitError
	switch {
	case errors.Is(err, errEnded):
		out.Linef("%s ended the start with exit 0", layout.ImageBootstrap)
		return env, 0, true
	case errors.As(err, &exit):
		code := exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			code = 128 + int(status.Signal())
		}
		out.Linef("%s ended the start with exit %d", layout.ImageBootstrap, code)
		return env, code, true
	case err != nil:
		out.Linef("%s skipped: %v", layout.ImageBootstrap, err)
		return env, 0, false
	}
	syscall.Umask(got.Umask)
	if err := os.Chdir(got.Dir); err != nil {
		out.Linef("%s changed to a directory that cannot be entered: %v", layout.ImageBootstrap, err)
	}
	return got.environment(), 0, false
}

// errEnded means that the script exited with success before the end.
var errEnded = errors.New("script ended the shell")

// source runs the script in a shell that afterwards calls this binary to report. The report is one JSON value, not
// everything up to the end of the stream: what the script left in the background may hold the pipe for ever.
func (e *Entry) source(sh, script string, env environment) (report, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return report{}, err
	}
	defer reader.Close()
	cmd := exec.Command(sh, "-c", ". "+quote(script)+"\nexec "+quote(e.Self)+" "+ReportArg)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, e.Stdout, e.Stderr
	cmd.ExtraFiles = make([]*os.File, reportFD-2)
	cmd.ExtraFiles[reportFD-3] = writer
	err = cmd.Start()
	_ = writer.Close()
	if err != nil {
		return report{}, err
	}

	type answer struct {
		report report
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.err = json.NewDecoder(reader).Decode(&a.report)
		answers <- a
	}()
	if err := cmd.Wait(); err != nil {
		return report{}, err
	}
	// The shell is gone, so all of the report is in the pipe or there is none.
	_ = reader.SetReadDeadline(time.Now().Add(2 * time.Second))
	a := <-answers
	if a.err != nil {
		return report{}, errEnded
	}
	return a.report, nil
}

// Report writes the environment, directory and umask of this process to the descriptor that source opened.
func Report() int {
	file := os.NewFile(reportFD, "report")
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	r := report{Dir: dir, Umask: syscall.Umask(0)}
	for _, entry := range os.Environ() {
		r.Env = append(r.Env, []byte(entry))
	}
	if err := json.NewEncoder(file).Encode(r); err != nil {
		say.To(os.Stderr, "bai-runner: ").Linef("report the environment: %v", err)
		return 1
	}
	return 0
}

// environment drops what the shell keeps for itself.
func (r report) environment() environment {
	var env environment
	for _, entry := range r.Env {
		name, _, _ := strings.Cut(string(entry), "=")
		switch name {
		case "_", "OLDPWD", "SHLVL", "PWD":
		default:
			env = append(env, string(entry))
		}
	}
	return env
}

// quote makes a word of a POSIX shell.
func quote(text string) string {
	return fmt.Sprintf("'%s'", strings.ReplaceAll(text, "'", `'\''`))
}
