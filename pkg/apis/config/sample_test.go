// SPDX-License-Identifier: Apache-2.0

package config

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSampleIsTheDefaults(t *testing.T) {
	want, _ := mustLoad(t, minimal, nil)
	uncommented := regexp.MustCompile(`(?m)^#([a-z"])`).ReplaceAllString(Sample(), "$1")
	if uncommented == Sample() {
		t.Fatal("the sample has no commented defaults")
	}
	for name, src := range map[string]string{"as shipped": Sample(), "with defaults uncommented": uncommented} {
		got, report := mustLoad(t, src, nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sample %s is not the defaults (-defaults +sample):\n%s", name, diff)
		}
		if len(report.Warnings) > 0 {
			t.Errorf("sample %s has warnings: %v", name, report.Warnings)
		}
	}
	if _, report := mustLoad(t, Sample(), nil); len(report.Unused) > 0 {
		t.Errorf("the sample sets keys that are not used: %v", report.Unused)
	}
}

// Every key has to be found in the sample, as a default or as an example.
func TestSampleNamesEveryKey(t *testing.T) {
	_, report := mustLoad(t, minimal, nil)
	retired := map[string]bool{"license": true, "registry": true, "baistatic": true, "vfolder-pv": true}
	for _, o := range report.Origins {
		name := o.Key[strings.LastIndexByte(o.Key, '.')+1:]
		written := regexp.MustCompile(`(\b` + name + ` = |\[[a-z.-]*\b` + name + `\])`)
		if !retired[name] && !written.MatchString(Sample()) {
			t.Errorf("the sample does not mention %s", o.Key)
		}
	}
}

func TestSampleExamplesAreAccepted(t *testing.T) {
	// All examples together are one big file, but for what needs other files
	// or rules out each other.
	skip := regexp.MustCompile(`(?m)^# e\.g\. (ssl-|rpc-auth|allocations|agent = |container = |resource = |\[\[agents).*\n`)
	src := regexp.MustCompile(`(?m)^# e\.g\. `).ReplaceAllString(skip.ReplaceAllString(Sample(), ""), "")
	if _, report := mustLoad(t, src, nil); len(report.Warnings) > 0 {
		t.Errorf("warnings on the examples: %v", report.Warnings)
	}
}
