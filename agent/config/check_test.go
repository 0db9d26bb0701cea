package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
)

// refused wants text to have exactly one error, worded as want from its position on.
func refused(t *testing.T, text, want string) {
	t.Helper()
	_, err := config.Parse("f", []byte(text))
	if err == nil || err.Error() != "f:"+want {
		t.Errorf("in\n%s\ngot  %v\nwant f:%s", text, err, want)
	}
}

func TestWhatIsNoYAMLIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	const look = "; look at the indentation, the quotes and the brackets in this line and the one above"
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "1:1: is empty; write at least apiVersion, kind and one of images"},
		"blank":           {" \n\n", "1:1: is empty; write at least apiVersion, kind and one of images"},
		"only a comment":  {"# nothing\n---\n", "1:1: is empty; write at least apiVersion, kind and one of images"},
		"text":            {"hello", `1:1: value "hello": is text; write a mapping with apiVersion, kind, defaults, images, pull, disk, startupTaint`},
		"two documents":   {minimal + "---\n" + minimal, "5:1: is a second document; write all images into the first one and leave --- away"},
		"UTF-16":          {"\xff\xfea\x00", "1:1: byte 0xff is not UTF-8; save the file as UTF-8"},
		"Latin-1":         {header + "# f\xfcr\n", "3:4: byte 0xfc is not UTF-8; save the file as UTF-8"},
		"NUL":             {header + "\x00\x00\x00", "3:1: character U+0000 is not allowed in YAML; remove it, or write the file again if it was damaged"},
		"escape sequence": {header + "# \x1b[0m\n", "3:3: character U+001B is not allowed in YAML; remove it, or write the file again if it was damaged"},
		"mark inside":     {header + "\ufeff", "3:1: character U+FEFF is not allowed in YAML; remove it, or write the file again if it was damaged"},
		"tab":             {header + "pull:\n\tengine: cri\n", "4:1: is no valid YAML: found character that cannot start any token; indent with blanks, not with tabs, and put text with special characters in quotes"},
		"open bracket":    {header + "images: [{name: a\n", "3:1: is no valid YAML: did not find expected ',' or '}'" + look},
		"indentation":     {header + "images:\n  - name: a\n   reference: r.io/a\n", "5:1: is no valid YAML: did not find expected '-' indicator" + look},
		"two colons":      {header + "disk: a: b\n", "3:1: is no valid YAML: mapping values are not allowed in this context" + look},
		"unknown alias":   {header + "images: *x\n", "3:1: is no valid YAML: unknown anchor 'x' referenced" + look},
		"open quote":      {header + "disk:\n  headroomPercent: \"5\npull: {}\n", "4:1: is no valid YAML: found unexpected end of stream" + look},
		"no colon":        {header + "disk:\n  headroomPercent\n  engine: 5\npull: {}\n", "5:1: is no valid YAML: mapping values are not allowed in this context" + look},
		"too far right":   {header + "disk:\n  a: 1\npull:\n  b: 1\n    c: 1\ndefaults:\n", "7:1: is no valid YAML: mapping values are not allowed in this context" + look},
		"too far left":    {header + "disk:\n    a: 1\n  b: 1\n", "5:1: is no valid YAML: did not find expected key" + look},
		"broken second":   {minimal + "---\n]", "5:1: is no valid YAML: did not find expected node content" + look},
		"merge key":       {minimal + "<<: {disk: {}}\n", "4:1: has a YAML merge key; write the fields out"},
		"key is a list":   {minimal + "[a]: 1\n", "4:1: has a key that is a list; keys are plain text"},
		"ConfigMap":       {strings.Replace(minimal, "PrewarmConfiguration", "ConfigMap", 1), `2:7: kind: value "ConfigMap": is the ConfigMap around the configuration; give the text under its data`},
		"no images":       {header, "1:1: images: is missing; write images: [{name: …, reference: …}]"},
		"empty images":    {header + "images: []", "3:9: images: is empty; list at least one image, with name and reference"},
		"null images":     {header + "images:", "3:8: images: has no value; write images: [{name: …, reference: …}]"},
		"strange field":   {minimal + `"a\nb": 1` + "\n", `4:1: "a\nb": is not a known field; remove it; known here are apiVersion, kind, defaults, images, pull, disk, startupTaint`},
		"own type":        {minimal + "disk: {headroomPercent: !percent 5}\n", `4:25: disk.headroomPercent: value "5": is of type !percent; write a whole number from 0 to 99, without quotes and unit`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, c.text, c.want)
		})
	}
}

// TestReferencesFromTheField are values that templates and careless hands leave behind. One of them makes the whole file
// refused, the good entries beside it too: the last good configuration stays in force, so that what is warm stays warm,
// and a node that never had one is not ready. Half a file would be a state that nobody wrote.
func TestReferencesFromTheField(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"${SMD_IMAGE}", "127.0.0.1:5000/lab/C:1.0", "127.0.0.1:5000/lab/c:", "https://127.0.0.1:5000/lab/c:1.0",
		"127.0.0.1:5000/lab//c:1", "127.0.0.1:5000/lab/c@sha256:abc", "127.0.0.1:5000/lab/c@md5:00000000000000000000000000000000",
		"3b1f0a6f0c0d1c2b3a4958677685949392919089888786858483828180ffeedd", "{{ .Values.image }}",
	} {
		t.Run(bad, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("f", []byte(header+"images:\n- {name: good, reference: r.io/good}\n- {name: a, reference: '"+bad+"'}\n"))
			errs, _ := errors.AsType[config.Errors](err)
			if len(errs) != 1 || c != nil {
				t.Fatalf("got %v and %v, want one error and no configuration", c, err)
			}
			if e := errs[0]; e.Value != bad || e.Line != 5 || e.Field != "images[1].reference" || e.Remedy == "" {
				t.Errorf("got %+v", e)
			}
		})
	}
	refused(t, header+"images: [{name: a, reference: ' '}]", `3:31: images[0].reference: value " ": is empty; write host/repository:tag`)
}

func TestTwoEntriesForOneImageAreRefused(t *testing.T) {
	t.Parallel()
	const digest = "@sha256:3b1f0a6f0c0d1c2b3a4958677685949392919089888786858483828180ffeedd"
	for _, c := range []struct{ first, second, problem string }{
		{"r.io/a:1", "r.io/a:1", "is the same image as images[0].reference (line 4)"},
		{"busybox", "docker.io/library/busybox:latest", "is the same image as images[0].reference (line 4)"},
		{"r.io/a:1" + digest, "r.io/a:2" + digest, "is the same image as images[0].reference (line 4)"},
		{"r.io/a:v1-CPU", "r.io/a:v1-cpu", "differs only by upper and lower case from images[0].reference (line 4), r.io/a:v1-CPU"},
		{"R.io/a:1", "r.io/a:1", "differs only by upper and lower case from images[0].reference (line 4), R.io/a:1"},
		{"r.io/a:1", "r.io/a:2", ""},
		{"r.io/a:1", "r.io/a:1" + digest, ""},
	} {
		_, err := config.Parse("f", []byte(header+"images:\n- {name: a, reference: '"+c.first+"'}\n- {name: b, reference: '"+c.second+"'}\n"))
		errs, _ := errors.AsType[config.Errors](err)
		got := ""
		if len(errs) == 1 && errs[0].Line == 5 {
			got = errs[0].Problem
		}
		if got != c.problem || len(errs) > 1 {
			t.Errorf("%s and %s: got %v, want %q", c.first, c.second, err, c.problem)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 63)
	for name, remedy := range map[string]string{
		"a": "", "0-a": "", "sagemaker-distribution-cpu": "", long: "",
		long + "n":     "write for example " + long,
		"GPU":          "write for example gpu",
		"smd_3.2":      "write for example smd-3-2",
		" -smd- ":      "write for example smd",
		"team/lab":     "write for example team-lab",
		"größe":        "write for example gr--e",
		"---":          "write lower-case letters, digits and '-'",
		"${NAME}":      "write for example name",
		"two\\nlines":  "write for example two-lines",
		"a\\u2028line": "write for example a-line",
	} {
		_, err := config.Parse("f", []byte(header+"images: [{name: \""+name+"\", reference: r.io/a}]"))
		if remedy == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.HasSuffix(err.Error(), "; "+remedy) || strings.ContainsAny(err.Error(), "\n\u2028") {
			t.Errorf("%q: got %v, want remedy %q", name, err, remedy)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	const any = "write a number with a unit, such as 30s, 5m or 6h"
	for text, want := range map[string]struct {
		span   time.Duration
		remedy string
	}{
		"6h":                    {span: 6 * time.Hour},
		"1h30m":                 {span: 90 * time.Minute},
		"0":                     {},
		"0s":                    {},
		`"0"`:                   {},
		`" 5m "`:                {span: 5 * time.Minute},
		"1.5h":                  {span: 90 * time.Minute},
		"7d":                    {remedy: "write 168h"},
		"2 weeks":               {remedy: "write 336h"},
		"6 h":                   {remedy: "write 6h"},
		"5min":                  {remedy: "write 5m"},
		"30 Seconds":            {remedy: "write 30s"},
		"6":                     {remedy: any},
		"1.5":                   {remedy: "write a duration such as 30s, 5m or 6h; if 1.5 is what you mean, put it in quotes: \"1.5\""},
		"soon":                  {remedy: any},
		"99999999999h":          {remedy: any},
		"99999999999999999999d": {remedy: any},
		"-5m":                   {remedy: "write a positive duration, or 0 for never"},
		"[5m]":                  {remedy: "write a duration such as 30s, 5m or 6h"},
	} {
		c, err := config.Parse("f", []byte(minimal+"pull: {stallTimeout: "+text+"}\n"))
		switch {
		case want.remedy != "":
			if err == nil || !strings.HasSuffix(err.Error(), "; "+want.remedy) {
				t.Errorf("%s: got %v, want %s", text, err, want.remedy)
			}
		case err != nil:
			t.Error(err)
		case c.Pull.StallTimeout.Duration != want.span:
			t.Errorf("%s: got %v", text, c.Pull.StallTimeout)
		}
	}
}

func TestDurationsAreWrittenShort(t *testing.T) {
	t.Parallel()
	for span, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", 6 * time.Hour: "6h", time.Hour + time.Second: "1h0m1s",
		10 * time.Hour: "10h", 100*time.Hour + 30*time.Minute: "100h30m", 1500 * time.Millisecond: "1.5s", time.Hour + 20*time.Second: "1h0m20s",
	} {
		d := config.Duration{Duration: span}
		if back, err := time.ParseDuration(d.String()); d.String() != want || err != nil || back != span {
			t.Errorf("got %s, want %s", d, want)
		}
	}
}

func TestNumbersAndEngines(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		"pull: {maxParallelImages: 1}":                    "",
		"pull: {maxParallelImages: 0x10}":                 "",
		"pull: {maxParallelImages: -1}":                   "is out of range; write a whole number of at least 1",
		"pull: {maxParallelImages: 99999999999999999999}": "is a number; write a whole number of at least 1, without quotes and unit",
		"pull: {maxParallelImages: 1.5}":                  "is a number; write a whole number of at least 1, without quotes and unit",
		"pull: {maxParallelImages: '2'}":                  "is text; write a whole number of at least 1, without quotes and unit",
		"pull: {engine: auto}":                            "",
		"pull: {engine: cri}":                             "",
		"pull: {engine: parallel}":                        "is not in this release; write auto, which will choose it once it is, or cri",
		"pull: {engine: CRI}":                             "is not a known engine; did you mean cri?",
		"pull: {engine: docker}":                          "is not a known engine; write one of auto, cri",
		"disk: {headroomPercent: 0}":                      "",
		"disk: {headroomPercent: 99}":                     "",
		"disk: {headroomPercent: 100}":                    "is out of range; write a whole number from 0 to 99",
		"disk: {headroomPercent: -5}":                     "is out of range; write a whole number from 0 to 99",
		"defaults: {pin: off}":                            "is text; write false, without quotes",
		"defaults: {pin: 1}":                              "is a number; write true, without quotes",
		"defaults: {pin: maybe}":                          "is text; write true or false",
	} {
		_, err := config.Parse("f", []byte(minimal+text+"\n"))
		if (err == nil) != (problem == "") || err != nil && !strings.HasSuffix(err.Error(), ": "+problem) {
			t.Errorf("%s: got %v, want %q", text, err, problem)
		}
	}
}
