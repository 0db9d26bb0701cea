package node

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestCondition(t *testing.T) {
	t.Parallel()
	const required = true
	pending, failed := Image{Readiness: NotReady, Required: required}, Image{Readiness: NotReady, Required: required, Reason: "Unauthorized", Message: "401"}
	here := Image{Readiness: Ready, Required: required}
	cases := map[string]struct {
		state State
		want  string // status, reason, message; empty: nothing is said
	}{
		"nothing is known":      {State{}, ""},
		"not all is known":      {State{Images: map[string]Image{"a": {}}}, ""},
		"ready":                 {State{Readiness: Ready, Images: map[string]Image{"a": here, "b": here, "c": {}}}, "True ImagesReady all required images of this node are ready: 2"},
		"nothing is needed":     {State{Readiness: Ready, Images: map[string]Image{}}, "True ImagesReady this node needs no image"},
		"on its way":            {State{Readiness: NotReady, Images: map[string]Image{"a": pending, "b": here}}, "False ImagesPending a is on its way"},
		"failed":                {State{Readiness: NotReady, Images: map[string]Image{"a": pending, "b": failed}}, "False Unauthorized a is on its way; b: 401"},
		"what is not required":  {State{Readiness: NotReady, Images: map[string]Image{"a": pending, "b": {Readiness: NotReady, Reason: "DiskFull"}}}, "False ImagesPending a is on its way"},
		"the first reason of 2": {State{Readiness: NotReady, Images: map[string]Image{"b": failed, "a": {Readiness: NotReady, Required: required, Reason: "Stalled", Message: "slow"}}}, "False Stalled a: slow; b: 401"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if have, known := c.state.condition(); known {
				got = string(have.Status) + " " + have.Reason + " " + have.Message
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	long := State{Readiness: NotReady, Images: map[string]Image{"a": {Readiness: NotReady, Required: required, Reason: "x", Message: strings.Repeat("ä", longestMessage)}}}
	if c, _ := long.condition(); len(c.Message) > longestMessage || !strings.HasSuffix(c.Message, "ä…") {
		t.Errorf("a long message has %d bytes and ends with %q", len(c.Message), c.Message[len(c.Message)-5:])
	}
}

// What is written is what is news: neither that an image is tried again, nor another message.
func TestConditionDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	failing := func(reason, message string) State {
		return State{Readiness: NotReady, Images: map[string]Image{"cpu": {Readiness: NotReady, Required: true, Reason: reason, Message: message}}}
	}
	type is struct{ status, reason string }
	cases := map[string]struct {
		have       *is
		state      State
		want       string
		transition bool
	}{
		"none, and nothing is known":     {nil, unknown(), "", false},
		"none":                           {nil, lost(), "False ImagesPending", true},
		"the same":                       {&is{"False", "Unauthorized"}, failing("Unauthorized", "again"), "", false},
		"another failure":                {&is{"False", "Unauthorized"}, failing("Stalled", "slow"), "False Stalled", false},
		"a failure after a pull":         {&is{"False", "ImagesPending"}, failing("Stalled", "slow"), "False Stalled", false},
		"another try after a failure":    {&is{"False", "Unauthorized"}, lost(), "", false},
		"ready":                          {&is{"False", "Unauthorized"}, ready(), "True ImagesReady", true},
		"lost":                           {&is{"True", "ImagesReady"}, lost(), "False ImagesPending", true},
		"what an earlier agent has said": {&is{"True", "ImagesReady"}, unknown(), "", false},
		"what somebody else has said":    {&is{"Unknown", "NodeStatusUnknown"}, ready(), "True ImagesReady", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &object{uid: "u"}
			if c.have != nil {
				o.condition = &corev1.NodeCondition{Status: corev1.ConditionStatus(c.have.status), Reason: c.have.reason}
			}
			p := c.state.conditionDue(o, now)
			if p == nil {
				if c.want != "" {
					t.Errorf("nothing is written, want %s", c.want)
				}
				return
			}
			got := p.body.(map[string]any)["status"].(map[string]any)["conditions"].([]any)[0].(corev1.NodeCondition)
			if have := string(got.Status) + " " + got.Reason; have != c.want || got.LastTransitionTime.Time.Equal(now) != c.transition {
				t.Errorf("%s, transition at %v; want %s", have, got.LastTransitionTime, c.want)
			}
		})
	}
}
