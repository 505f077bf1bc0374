// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"slices"
	"time"
)

// ConditionType names a condition.
type ConditionType string

// Conditions that every kind may carry, in Flux's sense.
const (
	// Ready is true when the object is as wanted at the observed generation.
	Ready ConditionType = "Ready"
	// Stalled is present, and true, only when agentd gave up: waiting is pointless.
	Stalled ConditionType = "Stalled"
	// Drifted is true on a running container that differs from its spec and is left alone.
	Drifted ConditionType = "Drifted"
)

// Condition is one statement about an object.
type Condition struct {
	Type               ConditionType `json:"type"`
	Status             bool          `json:"status"`
	Reason             string        `json:"reason,omitempty"`
	Message            string        `json:"message,omitempty"`
	ObservedGeneration int64         `json:"observedGeneration,omitempty"`
	// Since is when Status last changed.
	Since time.Time `json:"since,omitzero"`
}

// Conditions is the list in every status, sorted by type.
type Conditions []Condition

// Get returns the condition of the type.
func (c Conditions) Get(t ConditionType) (Condition, bool) {
	for _, x := range c {
		if x.Type == t {
			return x, true
		}
	}
	return Condition{}, false
}

// Set adds or replaces a condition. The time of the last transition is kept
// when only reason, message or generation differ.
func (c *Conditions) Set(n Condition) {
	for i, x := range *c {
		if x.Type != n.Type {
			continue
		}
		n.Since = x.Since
		if x.Status != n.Status {
			n.Since = time.Now().UTC()
		}
		(*c)[i] = n
		return
	}
	n.Since = time.Now().UTC()
	*c = append(*c, n)
	slices.SortFunc(*c, func(a, b Condition) int {
		switch {
		case a.Type < b.Type:
			return -1
		case a.Type > b.Type:
			return 1
		}
		return 0
	})
}

// Drop removes the condition of the type.
func (c *Conditions) Drop(t ConditionType) {
	*c = slices.DeleteFunc(*c, func(x Condition) bool { return x.Type == t })
	if len(*c) == 0 {
		*c = nil
	}
}

// SetReady marks the object as wanted at the generation and takes Stalled away.
func (c *Conditions) SetReady(generation int64) {
	c.Set(Condition{Type: Ready, Status: true, Reason: "Ready", ObservedGeneration: generation})
	c.Drop(Stalled)
}

// SetNotReady says what is missing. It takes Stalled away when the generation moved on.
func (c *Conditions) SetNotReady(generation int64, reason, message string) {
	c.Set(Condition{Type: Ready, Reason: reason, Message: message, ObservedGeneration: generation})
	if s, ok := c.Get(Stalled); ok && s.ObservedGeneration != generation {
		c.Drop(Stalled)
	}
}

// SetStalled says that agentd gave up on this generation, and why.
func (c *Conditions) SetStalled(generation int64, reason, message string) {
	c.Set(Condition{Type: Ready, Reason: reason, Message: message, ObservedGeneration: generation})
	c.Set(Condition{Type: Stalled, Status: true, Reason: reason, Message: message, ObservedGeneration: generation})
}

// IsReady reports whether the conditions say Ready at exactly this generation.
func (c Conditions) IsReady(generation int64) bool {
	r, ok := c.Get(Ready)
	return ok && r.Status && r.ObservedGeneration == generation
}

// IsStalled returns the Stalled condition if it holds at this generation.
func (c Conditions) IsStalled(generation int64) (Condition, bool) {
	s, ok := c.Get(Stalled)
	return s, ok && s.Status && s.ObservedGeneration == generation
}
