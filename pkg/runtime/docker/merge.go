// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/moby/moby/api/types/container"
)

// Override is an operator's own addition to every container: a JSON object in
// the form of the engine's create request (agent-docker-container-opts.json).
type Override struct {
	// Path is where it was read, for messages.
	Path string
	JSON []byte
}

type parsedOverride struct {
	path string
	body map[string]any
}

func parseOverrides(in []Override) ([]parsedOverride, error) {
	out := make([]parsedOverride, 0, len(in))
	for _, o := range in {
		body, err := decodeObject(o.JSON)
		if err != nil {
			return nil, fmt.Errorf("%s: not a JSON object: %w", o.Path, err)
		}
		// Merged onto nothing it must already be a request, so that a wrong
		// type is found at start and not with the first kernel.
		p := parsedOverride{path: o.Path, body: body}
		if _, err := applyOverrides(container.CreateRequest{}, []parsedOverride{p}); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// applyOverrides merges the overrides onto the request.
func applyOverrides(req container.CreateRequest, overrides []parsedOverride) (container.CreateRequest, error) {
	if len(overrides) == 0 {
		return req, nil
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return req, fmt.Errorf("container request: %w", err)
	}
	body, err := decodeObject(raw)
	if err != nil {
		return req, fmt.Errorf("container request: %w", err)
	}
	for _, o := range overrides {
		if err := merge(body, o.body, ""); err != nil {
			return req, fmt.Errorf("%s: %w", o.path, err)
		}
		if raw, err = json.Marshal(body); err != nil {
			return req, fmt.Errorf("%s: %w", o.path, err)
		}
		req = container.CreateRequest{}
		if err := json.Unmarshal(raw, &req); err != nil {
			return req, fmt.Errorf("%s: does not fit the engine's create request: %w", o.path, err)
		}
	}
	return req, nil
}

// merge puts src onto dst: an absent key is set, two objects are merged, two
// lists are joined, a plain value is replaced; anything else is an error.
func merge(dst, src map[string]any, at string) error {
	for key, add := range src {
		path := at + "." + key
		have, ok := dst[key]
		if !ok || have == nil {
			dst[key] = add
			continue
		}
		switch have := have.(type) {
		case map[string]any:
			m, ok := add.(map[string]any)
			if !ok {
				return fmt.Errorf("%s must be an object", path[1:])
			}
			if err := merge(have, m, path); err != nil {
				return err
			}
		case []any:
			l, ok := add.([]any)
			if !ok {
				return fmt.Errorf("%s must be a list", path[1:])
			}
			dst[key] = append(have, l...)
		case string:
			if err := replace[string](dst, key, add, path); err != nil {
				return err
			}
		case bool:
			if err := replace[bool](dst, key, add, path); err != nil {
				return err
			}
		case json.Number:
			if err := replace[json.Number](dst, key, add, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func replace[T any](dst map[string]any, key string, add any, path string) error {
	v, ok := add.(T)
	if !ok {
		return fmt.Errorf("%s must be of the same type as the value that it replaces, %v", path[1:], dst[key])
	}
	dst[key] = v
	return nil
}

// decodeObject keeps numbers as they are written: byte counts exceed a float's precision.
func decodeObject(raw []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var body map[string]any
	if err := dec.Decode(&body); err != nil {
		return nil, err
	}
	if body == nil {
		return nil, fmt.Errorf("it is null")
	}
	if dec.More() {
		return nil, fmt.Errorf("something follows the object")
	}
	return body, nil
}
