package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/prewarm-dev/prewarm/cri"
)

const (
	text  = "text"
	jsonl = "json"
)

// shared are the flags of every command.
type shared struct {
	runtimeEndpoint, imageEndpoint, registryConfigPath string
	engine, output, logFormat, logLevel                choice
	noColor                                            bool
}

func (s *shared) register(root *cobra.Command) {
	s.engine = choice{value: string(cri.EngineCRI), words: []string{string(cri.EngineCRI)}}
	s.output = choice{value: text, words: []string{text, jsonl}}
	s.logFormat = choice{value: text, words: []string{text, jsonl}}
	s.logLevel = choice{words: []string{"debug", "info", "warn", "error"}}

	f := root.PersistentFlags()
	f.StringVar(&s.runtimeEndpoint, "runtime-endpoint", "", "CRI socket of the container runtime, as unix:///path\n(env "+
		cri.EnvRuntimeEndpoint+"; else the first well-known socket that answers)")
	f.StringVar(&s.imageEndpoint, "image-endpoint", "", "CRI socket of the image service where it is another one\n(env "+cri.EnvImageEndpoint+")")
	f.StringVar(&s.registryConfigPath, "registry-config-path", "", "folders with hosts.toml files, separated by colons\n(else what the runtime says)")
	f.Var(&s.engine, "engine", "how bytes are fetched: "+s.engine.list())
	f.VarP(&s.output, "output", "o", "what is written to stdout: "+s.output.list())
	f.Var(&s.logFormat, "log-format", "format of the log on stderr: "+s.logFormat.list())
	f.Var(&s.logLevel, "log-level", "least level that is logged: "+s.logLevel.list()+"\n(default info for the agent, warn for other commands)")
	f.BoolVar(&s.noColor, "no-color", false, "no colours (env NO_COLOR)")
	for name, c := range map[string]*choice{"engine": &s.engine, "output": &s.output, "log-format": &s.logFormat, "log-level": &s.logLevel} {
		// It fails only for a flag that does not exist or has one already, which a test would see.
		_ = root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// logger logs to w at the level of --log-level, or else at the given one.
func (s *shared) logger(w io.Writer, level slog.Level) *slog.Logger {
	if s.logLevel.value != "" {
		// The words of the flag are slog's.
		_ = level.UnmarshalText([]byte(s.logLevel.value))
	}
	o := &slog.HandlerOptions{Level: level}
	if s.logFormat.value == jsonl {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// terminal gives the file descriptor of stdout where it is a terminal on which a cursor can be moved.
func (a *app) terminal() (fd int, ok bool) {
	if a.getenv("TERM") == "dumb" || !isTerminal(a.stdout) {
		return 0, false
	}
	f, ok := a.stdout.(*os.File)
	return int(f.Fd()), ok
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is that of the terminal, in cells; 0 where stdout is none.
func (a *app) width() int {
	fd, ok := a.terminal()
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(fd)
	if err != nil {
		return 0
	}
	return width
}

// color reports whether a terminal may be written to in colours (no-color.org: any value but an empty one forbids).
func (a *app) color(s *shared) bool { return !s.noColor && a.getenv("NO_COLOR") == "" }

// choice is a flag that takes one of some words.
type choice struct {
	value string
	words []string
}

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Set implements pflag.Value.
func (c *choice) Set(v string) error {
	if !slices.Contains(c.words, v) {
		return fmt.Errorf("valid is %s", c.list())
	}
	c.value = v
	return nil
}

// Type implements pflag.Value; help shows it.
func (c *choice) Type() string { return "word" }

func (c *choice) list() string { return strings.Join(c.words, ", ") }
