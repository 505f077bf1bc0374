// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

func TestKeyLines(t *testing.T) {
	const src = "\xef\xbb\xbf# comment = 1\n" +
		`top = 1 # [not.a.table]
"quoted key" = "a # b" 
'single.quoted' = 'c = d'
a.b . c = """
x = 1
\""" y = 2
"""
z = '''
[t]'''''
list = [ # comment
  1,
  "]",
  {k = [2, "}"], l.m = 3},
]
inline = {a = {b = 1}, "c d" = "}"}
[t]
k = 2026-01-02 03:04:05
[t.u."v.w"]
k = -1.5e3
[[arr]]
k = true
[arr.sub]
x = 1
[[arr.deep]]
y = 1
[[arr.deep]]
y = 2
[[arr]]
k = false
`
	want := map[string]int{
		"top": 2, `"quoted key"`: 3, `"single.quoted"`: 4, "a": 5, "a.b": 5, "a.b.c": 5, "z": 9,
		"list": 11, "list[0]": 12, "list[1]": 13, "list[2]": 14, "list[2].k": 14, "list[2].k[0]": 14, "list[2].k[1]": 14,
		"list[2].l": 14, "list[2].l.m": 14, "inline": 16, "inline.a": 16, "inline.a.b": 16, `inline."c d"`: 16,
		"t": 17, "t.k": 18, "t.u": 19, `t.u."v.w"`: 19, `t.u."v.w".k`: 20,
		"arr": 21, "arr[0]": 21, "arr[0].k": 22, "arr[0].sub": 23, "arr[0].sub.x": 24,
		"arr[0].deep": 25, "arr[0].deep[0]": 25, "arr[0].deep[0].y": 26, "arr[0].deep[1]": 27, "arr[0].deep[1].y": 28,
		"arr[1]": 29, "arr[1].k": 30,
	}
	var parsed map[string]any
	if _, err := toml.Decode(src, &parsed); err != nil {
		t.Fatalf("the test's document is not TOML: %v", err)
	}
	got, err := keyLines(src)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestKeyLinesStopsWhereTheDocumentIsBroken(t *testing.T) {
	for _, src := range []string{
		"", "=", "[", "[[", "[a", "[[a]", "a", "a.", "a =", "a = [", "a = [1", "a = {", "a = {b", "a = {b = 1", `a = "`, `a = """`, "a = '\n'",
		`"a`, `"\q" = 1`, "a = [,]", "a = {,}", "\xff", `a = "\`, "[a] b = 1", "a = 1 b = 2",
	} {
		if _, err := keyLines(src); err != nil {
			t.Errorf("keyLines(%q): %v; only nesting is its business", src, err)
		}
	}
	for _, src := range []string{
		"a = " + strings.Repeat("[", 100_000), "a = " + strings.Repeat("{b=", 100_000),
		strings.Repeat("a.", 100_000) + "a = 1", "[" + strings.Repeat("a.", 100_000) + "a]",
		"x = 1\na = " + strings.Repeat("[{a = ", 50),
	} {
		if _, err := keyLines(src); err == nil {
			t.Errorf("keyLines(%.20q…): no error", src)
		}
	}
}
