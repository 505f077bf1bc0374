// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// vectors reads a file of golden vectors recorded from the reference.
func vectors[T any](t *testing.T, name string) T {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// amount is ParseAmount for texts that are known to be good.
func amount(t testing.TB, text string) Amount {
	t.Helper()
	a, err := ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// outcome is a value or an error, as the vectors have it.
type outcome[T any] struct {
	Value *T
	Error string
}

// amountsOf reads a map of the vectors.
func amountsOf(t testing.TB, texts map[string]string) Amounts {
	t.Helper()
	a, err := ParseAmounts(texts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
